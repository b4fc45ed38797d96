//! Finds the names of a function and of its variables, for hiding them as AdvTest does.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use tree_sitter::{Node, Tree};

use crate::function::find_functions;
use crate::matches::TimeLeft;
use crate::rules::{Rules, ShapeCapture, ShapeRules};
use crate::traversal::goto_next;

/// The replacement of the function's name.
const FUNCTION: &str = "func";
/// The prefix of its variables' names, before their number.
const VARIABLE: &str = "arg_";

/// Words that denote the object that a method is called on.
const RECEIVERS: [&str; 5] = ["self", "this", "cls", "Self", "static"];

/// The occurrences of the names of the first function of `tree` and of its variables, with their replacements:
/// ascending and disjoint byte ranges. Variables are the parameters, the names that the language's rules declare
/// local, and named functions within the function; they are numbered in order of first occurrence. `None` if there
/// is no function, or if time is up.
pub(crate) fn find_names(
    tree: &Tree,
    rules: &Rules,
    shape_rules: &ShapeRules,
    source: &[u8],
    time: TimeLeft,
) -> Option<Vec<(Range<usize>, String)>> {
    let functions = find_functions(tree, rules, source, time)?;
    let function = functions.first()?;
    let own_name = last_word(&function.name);
    let (mut variables, mut members, mut callees) = (HashSet::new(), HashSet::new(), HashSet::new());
    time.for_each_match(&shape_rules.query, tree, source, |query_match| {
        for capture in query_match.captures() {
            let node = capture.node;
            let is_within =
                |outer: &Range<usize>| outer.start <= node.start_byte() && node.end_byte() <= outer.end;
            match shape_rules.captures[capture.index as usize] {
                Some(ShapeCapture::Parameter) if is_within(&function.bytes) => {
                    add_variables(node, source, &mut variables);
                }
                // A variable that holds the function itself has the function's name.
                Some(ShapeCapture::Local)
                    if is_within(&function.bytes)
                        && (is_within(&function.body)
                            || &source[node.byte_range()] != own_name.as_bytes()) =>
                {
                    add_variables(node, source, &mut variables);
                }
                Some(ShapeCapture::Member) => _ = members.insert(node.start_byte()),
                Some(ShapeCapture::Callee) => _ = callees.insert(node.start_byte()),
                _ => {}
            }
        }
    })?;
    let is_nested = |other: &&crate::unit::Function| {
        function.body.start <= other.bytes.start && other.bytes.end <= function.body.end
    };
    variables
        .extend(functions[1..].iter().filter(is_nested).map(|nested| last_word(&nested.name).as_bytes()));
    variables.remove(&b""[..]);

    let leaves = leaves(tree.root_node(), &function.bytes);
    let is_taken = |name: &str| leaves.iter().any(|leaf| &source[leaf.byte_range()] == name.as_bytes());
    let function_name = free_name(FUNCTION.to_owned(), &is_taken);
    let mut numbers: HashMap<&[u8], String> = HashMap::new();
    let (mut next, mut found) = (0, Vec::new());
    let names: Vec<&Node<'_>> = (leaves.iter())
        .filter(|leaf| leaf.is_named() && leaf.end_byte() <= function.body.start)
        .filter(|leaf| &source[leaf.byte_range()] == own_name.as_bytes())
        .collect();
    let is_bare = |leaf: &&&Node<'_>| receiver_before(&source[..leaf.start_byte()]).is_none();
    let definition = names.iter().find(is_bare).or(names.first()).map(|leaf| leaf.start_byte());
    for leaf in &leaves {
        let bytes = leaf.byte_range();
        let text = &source[bytes.clone()];
        // In PHP, the dollar sign and the name after it are one name.
        let start = variable_of_php(leaf).map_or(bytes.start, |variable| variable.start_byte());
        let access = receiver_before(&source[..start]);
        if definition == Some(bytes.start) {
            found.push((bytes, function_name.clone()));
            continue;
        }
        if members.contains(&bytes.start) {
            continue;
        }
        let may_be_variable = access.is_none() && !callees.contains(&bytes.start) && is_variable(leaf);
        if may_be_variable && variables.contains(text) {
            let name = numbers.entry(text).or_insert_with(|| {
                loop {
                    let name = format!("{VARIABLE}{next}");
                    next += 1;
                    if !is_taken(&name) {
                        break name;
                    }
                }
            });
            let is_shorthand = leaf.kind().starts_with("shorthand")
                || leaf.parent().is_some_and(|parent| parent.kind().starts_with("shorthand"));
            let name = match is_shorthand {
                // A shorthand for a field, whose name stays, and a variable.
                true => format!("{}: {name}", String::from_utf8_lossy(text)),
                false => name.clone(),
            };
            found.push((bytes, name));
        } else if text == own_name.as_bytes()
            && is_called_by_name(leaf)
            && call_receiver(&source[..start]).is_none_or(is_receiver)
        {
            found.push((bytes, function_name.clone()));
        }
    }
    Some(found)
}

/// The last run of letters, digits and underscores: the name in `A::f` and `module.f`.
fn last_word(name: &str) -> &str {
    let name = name.trim_end_matches(|c: char| !is_word(c));
    name.rsplit(|c: char| !is_word(c)).next().unwrap_or_default()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// A name that is not taken: with underscores appended if it is a keyword or already in use.
fn free_name(mut name: String, is_taken: &dyn Fn(&str) -> bool) -> String {
    while is_taken(&name) {
        name.push('_');
    }
    name
}

/// The names that a variable or a pattern declares. In patterns, capitalized names are constructors.
fn add_variables<'s>(node: Node<'_>, source: &'s [u8], variables: &mut HashSet<&'s [u8]>) {
    let is_pattern = node.child_count() > 0 && node.kind() != "variable_name";
    for leaf in leaves(node, &node.byte_range()) {
        let text = &source[leaf.byte_range()];
        let is_constructor = is_pattern && text.first().is_some_and(u8::is_ascii_uppercase);
        let is_special = text == b"_" || RECEIVERS.iter().any(|receiver| text == receiver.as_bytes());
        if is_variable(&leaf)
            && !is_constructor
            && !is_special
            && receiver_before(&source[..leaf.start_byte()]).is_none()
        {
            variables.insert(text);
        }
    }
}

/// Returns true if a leaf may be the name of a variable, by its kind in the grammar.
pub(crate) fn is_variable(leaf: &Node<'_>) -> bool {
    match leaf.kind() {
        "identifier"
        | "simple_identifier"
        | "interpolated_identifier"
        | "shorthand_property_identifier"
        | "shorthand_property_identifier_pattern"
        | "shorthand_field_identifier" => true,
        _ => variable_of_php(leaf).is_some(),
    }
}

fn variable_of_php<'t>(leaf: &Node<'t>) -> Option<Node<'t>> {
    leaf.parent().filter(|parent| leaf.kind() == "name" && parent.kind() == "variable_name")
}

/// Returns true if a leaf may be the name of a called function.
fn is_called_by_name(leaf: &Node<'_>) -> bool {
    let is_name = matches!(
        leaf.kind(),
        "identifier" | "simple_identifier" | "name" | "property_identifier" | "field_identifier"
    );
    is_name && variable_of_php(leaf).is_none()
}

/// The receiver before the operator that `before` ends with: `a` of `a.`, `a?.` and `a::`.
fn receiver_before(before: &[u8]) -> Option<&[u8]> {
    let before = before.trim_ascii_end();
    let object = before
        .strip_suffix(b".")
        .filter(|object| !object.ends_with(b"."))
        .or_else(|| before.strip_suffix(b"::"))?;
    let end = object.iter().rposition(|byte| !b"?!& \t\r\n".contains(byte)).map_or(0, |at| at + 1);
    Some(&object[..end])
}

/// Like [`receiver_before`], for the receiver of a call: also `a` of `a->`, where `->` otherwise separates the
/// parameter of a closure from its body.
fn call_receiver(before: &[u8]) -> Option<&[u8]> {
    receiver_before(before).or_else(|| before.strip_suffix(b"->"))
}

/// Returns true if a text ends with a word that denotes the object that a method is called on.
fn is_receiver(text: &[u8]) -> bool {
    let start =
        text.iter().rposition(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_').map_or(0, |at| at + 1);
    RECEIVERS.iter().any(|receiver| &text[start..] == receiver.as_bytes())
}

/// The leaves of `node` within a range of bytes, in ascending order.
fn leaves<'t>(node: Node<'t>, within: &Range<usize>) -> Vec<Node<'t>> {
    let mut leaves = Vec::new();
    let mut cursor = node.walk();
    loop {
        let node = cursor.node();
        let is_here = node.start_byte() < within.end && within.start < node.end_byte();
        if is_here
            && node.child_count() == 0
            && within.start <= node.start_byte()
            && node.end_byte() <= within.end
        {
            leaves.push(node);
        }
        if !goto_next(&mut cursor, is_here) {
            return leaves;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{hide_names, language_named};

    #[track_caller]
    fn check(language: &str, source: &str, expected: &str) {
        let found = hide_names(language_named(language).unwrap(), source);
        assert_eq!(found.as_deref(), Some(expected), "{source}");
    }

    #[test]
    fn names_are_replaced_and_texts_comments_and_members_stay() {
        check(
            "python",
            "def read(path, size=size_of(path), *rest, **path_options):\n    # path of read\n    data = open(path, \
             size=size).read()  # data\n    for line, (key, _) in data.path:\n        log(f\"path {path}\", \
             path_options)\n    return read(line.data, key) if rest else 'path'\n",
            "def func(arg_0, arg_1=size_of(arg_0), *arg_2, **arg_3):\n    # path of read\n    arg_4 = open(arg_0, \
             size=arg_1).read()  # data\n    for arg_5, (arg_6, _) in arg_4.path:\n        log(f\"path {arg_0}\", \
             arg_3)\n    return func(arg_5.data, arg_6) if arg_2 else 'path'\n",
        );
    }

    #[test]
    fn methods_call_themselves_by_the_new_name_and_others_by_the_old() {
        check(
            "python",
            "@cached\ndef get(self, key):\n    def load(key):\n        return self.store.get(key)\n    \
             return self.get(key) or load(self.key)\n",
            "@cached\ndef func(self, arg_0):\n    def arg_1(arg_0):\n        return self.store.get(arg_0)\n    \
             return self.func(arg_0) or arg_1(self.key)\n",
        );
        check(
            "javascript",
            "get(key, {name, size: n}) { return this.get(key) || other.get({key, name, n: n.key}); }",
            "func(arg_0, {name: arg_1, size: arg_2}) { return this.func(arg_0) || other.get({key: arg_0, name: arg_1, n: arg_2.key}); }",
        );
    }

    #[test]
    fn names_that_are_there_are_not_given_again() {
        check(
            "python",
            "def f(a, b):\n    return arg_0(func, a, b)\n",
            "def func_(arg_1, arg_2):\n    return arg_0(func, arg_1, arg_2)\n",
        );
        // `func` is a keyword.
        check(
            "go",
            "func Sum(xs []int, of T) (n int) {\n\tfor _, x := range xs { n += x }\n\ty := T{n: n, m: of.n}\n\treturn Sum(y.xs, of)\n}\n",
            "func func_(arg_0 []int, arg_1 T) (arg_2 int) {\n\tfor _, arg_3 := range arg_0 { arg_2 += arg_3 }\n\t\
             arg_4 := T{n: arg_2, m: arg_1.n}\n\treturn func_(arg_4.xs, arg_1)\n}\n",
        );
    }

    #[test]
    fn standalone_functions_are_found_in_languages_that_require_a_context() {
        check(
            "java",
            "public int sum(int[] values) {\n  int total = 0; // total\n  for (int value : values) total += value;\n  \
             return total + this.total + sum(null) + total();\n}",
            "public int func(int[] arg_0) {\n  int arg_1 = 0; // total\n  for (int arg_2 : arg_0) arg_1 += arg_2;\n  \
             return arg_1 + this.total + func(null) + total();\n}",
        );
        check(
            "php",
            "public function add($a, $b = 1) { $c = $a + $b; return $this->add($c->a, \"$c\"); }",
            "public function func($arg_0, $arg_1 = 1) { $arg_2 = $arg_0 + $arg_1; return $this->func($arg_2->a, \"$arg_2\"); }",
        );
    }

    #[test]
    fn other_languages() {
        check(
            "rust",
            "pub fn add(&self, left: u8, point: Point) -> Option<u8> {\n    let Some(x) = left.x() else { return None };\n    \
             let y = |z: u8| z + x;\n    self.add(y, Point { x, y: point.y })\n}",
            "pub fn func(&self, arg_0: u8, arg_1: Point) -> Option<u8> {\n    let Some(arg_2) = arg_0.x() else { return None };\n    \
             let arg_3 = |arg_4: u8| arg_4 + arg_2;\n    self.func(arg_3, Point { x: arg_2, y: arg_1.y })\n}",
        );
        check(
            "typescript",
            "function pick(from: Item[], at?: number): Item { const found = from[at]; return pick(found.at); }",
            "function func(arg_0: Item[], arg_1?: number): Item { const arg_2 = arg_0[arg_1]; return func(arg_2.at); }",
        );
        check(
            "ruby",
            "def sum(list, start: 0)\n  total = start\n  list.each { |item| total += item.total }\n  puts \"total\"\n  total\nend",
            "def func(arg_0, arg_1: 0)\n  arg_2 = arg_1\n  arg_0.each { |arg_3| arg_2 += arg_3.total }\n  puts \"total\"\n  arg_2\nend",
        );
        check(
            "c",
            "int sum(int *list, int n) { int total = 0; for (int i = 0; i < n; i++) total += list[i]; return total + p->n; }",
            "int func(int *arg_0, int arg_1) { int arg_2 = 0; for (int arg_3 = 0; arg_3 < arg_1; arg_3++) arg_2 += arg_0[arg_3]; return arg_2 + p->n; }",
        );
        check(
            "cpp",
            "int List::sum(const std::vector<int>& xs) { int total = 0; for (auto x : xs) total += x; return this->sum(xs) + std::total; }",
            "int List::func(const std::vector<int>& arg_0) { int arg_1 = 0; for (auto arg_2 : arg_0) arg_1 += arg_2; return this->func(arg_0) + std::total; }",
        );
        check(
            "csharp",
            "public int Sum(int[] xs) { var total = 0; foreach (var x in xs) total += x; return total + xs.total; }",
            "public int func(int[] arg_0) { var arg_1 = 0; foreach (var arg_2 in arg_0) arg_1 += arg_2; return arg_1 + arg_0.total; }",
        );
        check(
            "lua",
            "function sum(xs)\n  local total = 0\n  for _, x in pairs(xs) do total = total + x.total end\n  return total\nend",
            "function func(arg_0)\n  local arg_1 = 0\n  for _, arg_2 in pairs(arg_0) do arg_1 = arg_1 + arg_2.total end\n  return arg_1\nend",
        );
        check(
            "r",
            "total <- function(xs, by = 1) {\n  out <- sum(xs$by, by = by)\n  for (x in xs) out <- out + x\n  out\n}",
            "func <- function(arg_0, arg_1 = 1) {\n  arg_2 <- sum(arg_0$by, by = arg_1)\n  for (arg_3 in arg_0) arg_2 <- arg_2 + arg_3\n  arg_2\n}",
        );
        check(
            "kotlin",
            "fun sum(xs: List<Int>, by: Int): Int {\n  var total = 0\n  for (x in xs) total += x.by\n  return total * by\n}",
            "fun func(arg_0: List<Int>, arg_1: Int): Int {\n  var arg_2 = 0\n  for (arg_3 in arg_0) arg_2 += arg_3.by\n  return arg_2 * arg_1\n}",
        );
        check(
            "scala",
            "def sum(xs: List[Int]): Int = { val total = xs.sum; xs.map(x => x + total); total }",
            "def func(arg_0: List[Int]): Int = { val arg_1 = arg_0.sum; arg_0.map(arg_2 => arg_2 + arg_1); arg_1 }",
        );
        check(
            "swift",
            "func sum(xs: [Int], to by: Int) -> Int {\n  var total = 0\n  for x in xs { total += x }\n  return total * by\n}",
            "func func_(arg_0: [Int], to arg_1: Int) -> Int {\n  var arg_2 = 0\n  for arg_3 in arg_0 { arg_2 += arg_3 }\n  return arg_2 * arg_1\n}",
        );
    }

    #[test]
    fn without_a_function_there_is_nothing_to_hide() {
        let python = language_named("python").unwrap();
        assert_eq!(hide_names(python, "a = 1\n"), None);
        assert_eq!(hide_names(language_named("markdown").unwrap(), "# a\n"), None);
    }
}
