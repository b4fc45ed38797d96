//! The order in which functions are summarized: callees before callers (Query4Code, 2024, algorithm 1).
//!
//! In a cycle of calls, one of the calls has to be removed. As in the paper it is chosen at random, but only among
//! calls on a cycle, and the choices are independent: each depends only on the seed and the two functions.

/// Calls between functions: for the index of each caller, the indices of its callees.
pub(crate) type Calls = Vec<Vec<u32>>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Order {
    /// 0 for functions without callees, otherwise one more than the maximum level of their callees.
    pub(crate) levels: Vec<u32>,
    /// Removed calls, as caller and callee, in the order of removal.
    pub(crate) removed: Vec<(u32, u32)>,
}

/// Removes calls until there are no cycles, those with lower values of `draw` first, and orders the functions by the
/// remaining calls.
pub(crate) fn order(calls: &mut Calls, draw: &dyn Fn(u32, u32) -> u64) -> Order {
    let mut removed = Vec::new();
    for (caller, callees) in (0..).zip(calls.iter_mut()) {
        callees.sort_unstable();
        callees.dedup();
        if let Ok(at) = callees.binary_search(&caller) {
            callees.remove(at);
            removed.push((caller, caller));
        }
    }
    let all: Vec<u32> = (0..).take(calls.len()).collect();
    let mut cycles = Components::new(calls.len()).cycles(calls, &all);
    let mut components = Components::new(calls.len());
    while let Some(cycle) = cycles.pop() {
        components.mark(&cycle);
        let inner =
            cycle.iter().flat_map(|&caller| calls[caller as usize].iter().map(move |&to| (caller, to)));
        let drawn = inner
            .filter(|(_, callee)| components.is_marked(*callee))
            .min_by_key(|&(caller, callee)| (draw(caller, callee), caller, callee));
        if let Some((caller, callee)) = drawn {
            calls[caller as usize].retain(|other| *other != callee);
            removed.push((caller, callee));
            cycles.extend(components.cycles(calls, &cycle));
        }
    }
    Order { levels: levels(calls), removed }
}

/// One more than the maximum level of the callees; `calls` must be acyclic.
fn levels(calls: &Calls) -> Vec<u32> {
    let mut callers: Vec<Vec<u32>> = vec![Vec::new(); calls.len()];
    let mut open: Vec<usize> = calls.iter().map(Vec::len).collect();
    for (caller, callees) in (0..).zip(calls) {
        callees.iter().for_each(|callee| callers[*callee as usize].push(caller));
    }
    let mut levels = vec![0; calls.len()];
    let mut ready: Vec<u32> =
        (0..).zip(&open).filter(|(_, n_open)| **n_open == 0).map(|(node, _)| node).collect();
    while let Some(callee) = ready.pop() {
        for &caller in &callers[callee as usize] {
            let caller_at = caller as usize;
            levels[caller_at] = levels[caller_at].max(levels[callee as usize] + 1);
            open[caller_at] -= 1;
            if open[caller_at] == 0 {
                ready.push(caller);
            }
        }
    }
    levels
}

const UNSEEN: u32 = u32::MAX;

/// Finds strongly connected components (Tarjan, 1972), without recursion.
struct Components {
    /// The set that each node belongs to, for restricting the search.
    marks: Vec<u32>,
    mark: u32,
    index: Vec<u32>,
    low: Vec<u32>,
    is_on_stack: Vec<bool>,
}

impl Components {
    fn new(n_nodes: usize) -> Self {
        Self {
            marks: vec![0; n_nodes],
            mark: 0,
            index: vec![UNSEEN; n_nodes],
            low: vec![0; n_nodes],
            is_on_stack: vec![false; n_nodes],
        }
    }

    fn mark(&mut self, nodes: &[u32]) {
        self.mark += 1;
        nodes.iter().for_each(|node| self.marks[*node as usize] = self.mark);
    }

    fn is_marked(&self, node: u32) -> bool {
        self.marks[node as usize] == self.mark
    }

    /// The components with more than one node in the subgraph of some nodes.
    fn cycles(&mut self, calls: &Calls, nodes: &[u32]) -> Vec<Vec<u32>> {
        self.mark(nodes);
        nodes.iter().for_each(|node| self.index[*node as usize] = UNSEEN);
        let (mut cycles, mut stack, mut next) = (Vec::new(), Vec::new(), 0);
        // Nodes being visited, with the index of the next callee.
        let mut path: Vec<(u32, usize)> = Vec::new();
        for &root in nodes {
            if self.index[root as usize] == UNSEEN {
                path.push((root, 0));
            }
            while let Some((node, child)) = path.pop() {
                let at = node as usize;
                if child == 0 {
                    (self.index[at], self.low[at]) = (next, next);
                    next += 1;
                    stack.push(node);
                    self.is_on_stack[at] = true;
                } else {
                    let callee = calls[at][child - 1] as usize;
                    if self.is_on_stack[callee] {
                        self.low[at] = self.low[at].min(self.low[callee]);
                    }
                }
                let callees = &calls[at];
                let following = (child..callees.len()).find(|&number| {
                    let callee = callees[number] as usize;
                    if self.marks[callee] != self.mark {
                        return false;
                    }
                    if self.index[callee] == UNSEEN {
                        return true;
                    }
                    if self.is_on_stack[callee] {
                        self.low[at] = self.low[at].min(self.index[callee]);
                    }
                    false
                });
                if let Some(number) = following {
                    path.push((node, number + 1));
                    path.push((callees[number], 0));
                } else if self.low[at] == self.index[at] {
                    let begin = stack.iter().rposition(|other| *other == node).unwrap_or_default();
                    let component: Vec<u32> = stack.drain(begin..).collect();
                    component.iter().for_each(|node| self.is_on_stack[*node as usize] = false);
                    if component.len() > 1 {
                        cycles.push(component);
                    }
                }
            }
        }
        cycles
    }
}

#[cfg(test)]
mod tests {
    use xxhash_rust::xxh3::xxh3_64_with_seed;

    use super::*;

    fn draw(seed: u64) -> impl Fn(u32, u32) -> u64 {
        move |caller, callee| xxh3_64_with_seed(&[caller.to_le_bytes(), callee.to_le_bytes()].concat(), seed)
    }

    /// Returns whether a call is on a cycle, by exhaustive search.
    fn is_on_cycle(calls: &Calls, caller: u32, callee: u32) -> bool {
        let (mut seen, mut open) = (vec![false; calls.len()], vec![callee]);
        while let Some(node) = open.pop() {
            if node == caller {
                return true;
            }
            if !std::mem::replace(&mut seen[node as usize], true) {
                open.extend(&calls[node as usize]);
            }
        }
        false
    }

    #[test]
    fn callees_come_before_callers_except_for_removed_calls() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..500 {
            let n_nodes = random.u32(1..40);
            let n_calls = random.u32(0..4 * n_nodes);
            let mut calls: Calls = vec![Vec::new(); n_nodes as usize];
            for _ in 0..n_calls {
                calls[random.usize(0..n_nodes as usize)].push(random.u32(0..n_nodes));
            }
            let seed = random.u64(..);
            let mut left = calls.clone();
            let found = order(&mut left, &draw(seed));
            // Every function once, callees first except for removed calls.
            assert_eq!(found.levels.len(), calls.len());
            for (caller, callees) in (0..).zip(&calls) {
                for &callee in callees {
                    let is_before = found.levels[callee as usize] < found.levels[caller as usize];
                    assert!(is_before || found.removed.contains(&(caller, callee)), "{calls:?}");
                }
            }
            // Levels are minimal.
            for (callees, level) in left.iter().zip(&found.levels) {
                let needed = callees.iter().map(|callee| found.levels[*callee as usize] + 1).max();
                assert_eq!(needed.unwrap_or(0), *level);
            }
            // Each removed call was on a cycle when it was removed.
            let mut before = calls.clone();
            for &(caller, callee) in &found.removed {
                assert!(is_on_cycle(&before, caller, callee), "{calls:?}");
                before[caller as usize].retain(|other| *other != callee);
            }
            assert_eq!(found, order(&mut calls.clone(), &draw(seed)));
        }
    }

    #[test]
    fn the_seed_decides_which_call_of_a_cycle_is_removed() {
        let cycle = || vec![vec![1], vec![2], vec![0], vec![0]];
        let removed: std::collections::BTreeSet<(u32, u32)> =
            (0..100).flat_map(|seed| order(&mut cycle(), &draw(seed)).removed).collect();
        // The call from outside the cycle is never removed, and each call of the cycle is removed for some seed.
        assert_eq!(removed.into_iter().collect::<Vec<_>>(), [(0, 1), (1, 2), (2, 0)]);
    }

    #[test]
    fn long_chains_and_large_cycles_need_no_stack() {
        let n_nodes = 200_000;
        let mut chain: Calls = (1..n_nodes).map(|next| vec![next]).collect();
        chain.push(vec![0]);
        let found = order(&mut chain, &draw(1));
        assert_eq!(found.removed.len(), 1);
        assert_eq!(found.levels.iter().max(), Some(&(n_nodes - 1)));
    }
}
