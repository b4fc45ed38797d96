//! Every command that prints tables prints them in every layout.

use super::*;
use crate::fixture::layouts::check_layouts;

#[test]
fn every_command_that_prints_tables_prints_them_in_every_layout() {
    let fixture = converted();
    let write = |name: &str, text: &str| fixture.write(&format!("tree/{name}"), text);
    write("ratings.csv", "anna,ben,carl\n1,1,1\n0,1,0\n0,0,0\n1,1,0\n");
    write("verdicts.csv", "truth,prediction,score\n1,1,0.9\n0,1,0.8\n0,0,0.2\n1,0,0.4\n");
    write("forecasts.csv", "outcome,probability\n1,0.9\n1,0.4\n0,0.2\n0,0.6\n1,0.8\n");
    write("table.tsv", TABLE);
    write(
        "repos/demo/src/io/csv.py",
        "def read_csv(path):\n    \"\"\"Read rows of a table from a file of commas.\"\"\"\n    return [line.split(',') for line in open(path)]\n",
    );
    write("repos/demo/src/lists.py", "def sort_list(xs):\n    return sorted(xs)\n");
    // As many as a source needs to order methods.
    let documented = |n: usize| {
        let color = ["red", "green", "blue"][n % 3];
        format!(
            "def f_{n}(first, second):\n    \"\"\"Take part number {n} from the {color} drawer.\"\"\"\n    return [part_{n} + first * second for part_{n} in drawers_{n}]\n\n\n"
        )
    };
    write("repos/demo/src/drawers.py", &(0..12).map(documented).collect::<String>());
    let plan = "title = 'x'\n[[datasets]]\nname = 'y'\nprotocol = 'cosqa-search'\n\
        files = { queries = 'pairs.json', codes = 'codes.json' }\nmethods = ['bow', 'bm25']\nbaseline = 'bow'\n";
    write("plan.toml", plan);
    write("queries.txt", "python sort a list\npython install module from file\n");
    for method in ["bow", "bm25"] {
        json(&fixture, &format!("eval ./score --method {method} --run {method} --json"));
    }
    for arguments in [
        "eval ./score --method bm25",
        "eval score --qrels score/qrels/test.tsv --run bm25",
        "eval compare bow bm25 bm25 --qrels score/qrels/test.tsv --moved 1 --benchmark score",
        "eval agreement ratings.csv --block 2",
        "eval verdicts verdicts.csv --against verdicts.csv",
        "eval verdicts forecasts.csv",
        "eval repo repos/demo/src --proxies docstring",
        "eval repo --agreement table.tsv --repos repos --proxies docstring",
        "eval repo-search table.tsv --repos repos --method bm25",
        "eval protocol cosqa-search --queries pairs.json --codes codes.json --method bm25",
        "eval protocol --list",
        "eval protocol gecs --list",
        "eval tune table.tsv --repos repos --method bm25",
        "eval tune table.tsv --repos repos --method bm25 --confidence",
        "eval tune table.tsv --repos repos --method bm25 --intent model.json",
        "eval run plan.toml --data .",
        "data describe pairs.json codes.json --against codes.json",
        "data formats",
        "data formats gecs",
        "data intent queries.txt",
    ] {
        check_layouts(|words| fixture.run(words), arguments);
    }
}
