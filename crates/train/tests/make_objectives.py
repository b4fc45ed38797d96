"""Values and gradients of the losses in src/encoder/objective.rs, by PyTorch's automatic differentiation.

Written with torch 1.13: `python make_objectives.py`. Each loss is written as its paper or code states it, in 64 bits, not
as the Rust code computes it.
"""

import json
from pathlib import Path

import torch
import torch.nn.functional as F

torch.manual_seed(7)
torch.set_default_dtype(torch.float64)
N = 4
LABELS = [1, 0, 1, 1]
IGNORED = [(0, 2), (2, 0), (3, 5)]
CASES = []


def case(name, inputs, loss):
    """Adds a case: inputs are (name, tensor) whose gradients are stored."""
    leaves = [tensor.clone().requires_grad_(True) for tensor in inputs]
    value = loss(*leaves)
    value.backward()
    CASES.append({
        "name": name,
        "inputs": [{"shape": list(leaf.shape), "values": leaf.detach().flatten().tolist()} for leaf in leaves],
        "loss": value.item(),
        "gradients": [leaf.grad.flatten().tolist() for leaf in leaves],
    })


def ignore(scores):
    mask = torch.zeros(scores.shape, dtype=torch.bool)
    for row, column in IGNORED:
        if column < scores.shape[1]:
            mask[row, column] = True
    return scores.masked_fill(mask, float("-inf"))


own = torch.arange(N)
square = torch.randn(N, N) * 3
wide = torch.randn(N, N + 2) * 3
extreme = torch.tensor([[900.0, -900.0], [5.0, 900.0]])

case("info-nce", [wide], lambda s: F.cross_entropy(s, own))
case("info-nce-masked", [wide], lambda s: F.cross_entropy(ignore(s), own))
case("info-nce-two", [wide], lambda s: (
    F.cross_entropy(ignore(s), own) + F.cross_entropy(ignore(s)[:, :N].T, own)) / 2)
case("info-nce-extreme", [extreme], lambda s: F.cross_entropy(s, torch.arange(2)))


def multi_positive(s):
    mask = torch.zeros(N, N + 2)
    mask[own, own] = 1
    mask[0, 3] = mask[2, 5] = 1
    return -torch.log((s.softmax(1) * mask).sum(1)).mean()


case("multi-positive", [wide], multi_positive)


def tri(q, s):
    top = q.diagonal().exp() + s.diagonal().exp()
    return -torch.log(top / (q.exp().sum(1) + s.exp().sum(1))).mean()


case("tri-loss", [square, torch.randn(N, N)], tri)
case("bce", [torch.tensor([0.3, -20.0, 40.0, 0.0])], lambda x: F.binary_cross_entropy_with_logits(
    x, torch.tensor([1.0, 1.0, 0.0, 0.5])))


def released(logits, online=False):
    s = torch.sigmoid(logits)
    positive = torch.diag(torch.tensor(LABELS) == 1)
    p, n = s[positive], s[~positive]
    if online:
        kept_n = n[n < (p.max() if len(p) > 1 else n.mean())]
        kept_p = p[p > (n.min() if len(n) > 1 else p.mean())]
        p, n = kept_p, kept_n
    return -torch.log(p).mean() - torch.log(1 - n).mean()


online = square.clone()
online[0, 1] = 9.0
online[2, 2] = -9.0
case("coclr", [square], released)
case("coclr-online", [online], lambda x: released(x, True))


def paper(logits, rewritten):
    labels = torch.tensor(LABELS, dtype=torch.float64)
    s, r = torch.sigmoid(logits), torch.sigmoid(rewritten)
    total = 0.0
    row = 0
    for i in range(N):
        total = total - (labels[i] * s[i, i].log() + (1 - labels[i]) * (1 - s[i, i]).log())
        total = total - sum((1 - s[i, j]).log() for j in range(N) if j != i) / (N - 1)
        if labels[i] == 1:
            total = total - r[row, i].log() - sum((1 - r[row, j]).log() for j in range(N) if j != i) / (N - 1)
            row += 1
    return total / N


case("coclr-paper", [square, torch.randn(sum(LABELS), N)], paper)
case("cross-entropy", [torch.randn(N, 2) * 4], lambda x: F.cross_entropy(x, torch.tensor(LABELS)))


def hinge(s):
    total, n = 0.0, 0
    for i in range(N):
        for j in range(N + 2):
            if i != j and (i, j) not in IGNORED:
                total, n = total + F.relu(0.5 - s[i, i] + s[i, j]), n + 1
    return total / n


case("margin", [wide], hinge)
TEACHER = torch.randn(N, N)
case("distill-scores", [square], lambda s: F.kl_div(
    F.log_softmax(s / 2, 1), F.softmax(TEACHER / 2, 1), reduction="batchmean"))
case("distill-vectors", [square], lambda v: (v - TEACHER).pow(2).sum(1).mean())
queries, documents = torch.randn(N, 6), torch.randn(N, 6)


def nested(q, d):
    terms = []
    for columns in (2, 6):
        a, b = F.normalize(q[:, :columns], dim=1), F.normalize(d[:, :columns], dim=1)
        terms.append(F.cross_entropy(a @ b.T * 20, own))
    return sum(terms) / 2


case("matryoshka", [queries, documents], nested)


def adamw():
    parameter = torch.tensor([0.5, -1.0, 2.0, 0.0], requires_grad=True)
    optimizer = torch.optim.AdamW([parameter], lr=0.05, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
    gradients, values = [], []
    for step in range(5):
        gradient = torch.randn(4) * (step + 1)
        gradients.append(gradient.tolist())
        optimizer.zero_grad()
        parameter.grad = gradient.clone()
        norm = torch.nn.utils.clip_grad_norm_([parameter], 2.0)
        optimizer.step()
        values.append({"norm": norm.item(), "values": parameter.tolist()})
    return {"start": [0.5, -1.0, 2.0, 0.0], "gradients": gradients, "steps": values}


fixture = {
    "labels": LABELS, "ignored": IGNORED, "teacher": TEACHER.flatten().tolist(), "cases": CASES, "adamw": adamw(),
}
path = Path(__file__).parent / "fixtures" / "objectives.json"
path.write_text(json.dumps(fixture, indent=1) + "\n")
