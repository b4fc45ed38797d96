//! Finds the parameters and results of functions.

use std::ops::Range;

use tree_sitter::Tree;

use crate::function::find_functions;
use crate::matches::TimeLeft;
use crate::rules::{Rules, ShapeCapture, ShapeRules};
use crate::unit::{Function, MAX_NAME_BYTES, truncate};

/// A function or method, with its parameters and whether it returns a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionShape {
    /// Its name as written.
    pub name: String,
    /// Byte range of the statement that defines it and nothing else, decorators included.
    pub bytes: Range<usize>,
    /// Byte range of its body as in the grammar, including braces.
    pub body: Range<usize>,
    /// Names of its parameters, or the patterns in their place, in order, except the object that a method is called
    /// on. Each has at most [`MAX_NAME_BYTES`].
    pub parameters: Vec<String>,
    /// Names of the variables that it assigns itself, each once, in order; empty if the rules of its language do
    /// not define them.
    pub locals: Vec<String>,
    /// True if it returns a value itself, rather than only in a nested function.
    pub returns_value: bool,
}

/// The functions and methods of `tree` in ascending order of their starts, including nested ones; `None` if time is
/// up.
pub(crate) fn find_shapes(
    tree: &Tree,
    rules: &Rules,
    shape_rules: &ShapeRules,
    source: &[u8],
    time: TimeLeft,
) -> Option<Vec<FunctionShape>> {
    let functions = find_functions(tree, rules, source, time)?;
    let (mut parameters, mut results, mut closures, mut locals) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    time.for_each_match(&shape_rules.query, tree, source, |query_match| {
        for capture in query_match.captures() {
            let bytes = capture.node.byte_range();
            match shape_rules.captures[capture.index as usize] {
                Some(ShapeCapture::Parameter) => parameters.push(bytes),
                Some(ShapeCapture::Result) => results.push(bytes),
                Some(ShapeCapture::Closure) => closures.push(bytes),
                Some(ShapeCapture::Local) => locals.push(bytes),
                Some(ShapeCapture::Member | ShapeCapture::Callee) | None => {}
            }
        }
    })?;
    // A closure that is given a name is the function of that name: its body is the first within it.
    let mut by_body: Vec<&Function> = functions.iter().collect();
    by_body.sort_by_key(|function| function.body.start);
    closures.retain(|closure| {
        let first = by_body.partition_point(|function| function.body.start < closure.start);
        let is_named =
            |function: &&Function| contains(closure, &function.body) && contains(&function.bytes, closure);
        !by_body.get(first).is_some_and(is_named)
    });
    for ranges in [&mut parameters, &mut results, &mut locals] {
        ranges.sort_by_key(|range| (range.start, range.end));
        ranges.dedup();
    }
    let owners = FunctionRanges::new(&functions, &closures);
    let mut shapes: Vec<FunctionShape> = functions.iter().map(FunctionShape::new).collect();
    for range in parameters {
        if let Some(shape) = owners.innermost(&range).and_then(|owner| shapes.get_mut(owner))
            && !contains(&shape.body, &range)
        {
            let mut name = String::from_utf8_lossy(&source[range]).into_owned();
            truncate(&mut name, MAX_NAME_BYTES);
            shape.parameters.push(name);
        }
    }
    for range in locals {
        if let Some(shape) = owners.innermost(&range).and_then(|owner| shapes.get_mut(owner)) {
            let mut name = String::from_utf8_lossy(&source[range.clone()]).into_owned();
            truncate(&mut name, MAX_NAME_BYTES);
            if contains(&shape.body, &range) && !shape.locals.contains(&name) {
                shape.locals.push(name);
            }
        }
    }
    for range in results {
        if let Some(shape) = owners.innermost(&range).and_then(|owner| shapes.get_mut(owner)) {
            shape.returns_value = true;
        }
    }
    Some(shapes)
}

impl FunctionShape {
    fn new(function: &Function) -> Self {
        Self {
            name: function.name.clone(),
            bytes: function.bytes.clone(),
            body: function.body.clone(),
            parameters: Vec::new(),
            locals: Vec::new(),
            returns_value: false,
        }
    }
}

fn contains(outer: &Range<usize>, inner: &Range<usize>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

/// Byte ranges of functions and closures, for lookup by position.
struct FunctionRanges {
    /// Ascending by start, outer ones first, with the number of the function; closures have none.
    ranges: Vec<(Range<usize>, Option<usize>)>,
    /// The index of the range that encloses each range, if any.
    parents: Vec<Option<usize>>,
}

impl FunctionRanges {
    fn new(functions: &[Function], closures: &[Range<usize>]) -> Self {
        let named =
            functions.iter().enumerate().map(|(number, function)| (function.bytes.clone(), Some(number)));
        let mut ranges: Vec<_> =
            named.chain(closures.iter().map(|closure| (closure.clone(), None))).collect();
        ranges.sort_by_key(|(range, _)| (range.start, std::cmp::Reverse(range.end)));
        let mut parents = Vec::with_capacity(ranges.len());
        let mut open: Vec<usize> = Vec::new();
        for (index, (range, _)) in ranges.iter().enumerate() {
            while open.last().is_some_and(|&outer: &usize| !contains(&ranges[outer].0, range)) {
                open.pop();
            }
            parents.push(open.last().copied());
            open.push(index);
        }
        Self { ranges, parents }
    }

    /// The innermost function around a range; `None` if that is a closure, or there is no function.
    fn innermost(&self, inner: &Range<usize>) -> Option<usize> {
        let next = self.ranges.partition_point(|(range, _)| range.start <= inner.start);
        let mut candidate = next.checked_sub(1);
        while let Some(index) = candidate {
            let (range, owner) = &self.ranges[index];
            // A closure that is returned is a value of the enclosing function.
            if contains(range, inner) && (owner.is_some() || range != inner) {
                return *owner;
            }
            candidate = self.parents[index];
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::{function_shapes, language_named};

    /// Each function as `name(parameters)`, with ` = ` where it returns a value.
    #[track_caller]
    fn check(language: &str, source: &str, expected: &[&str]) {
        let shapes = function_shapes(language_named(language).unwrap(), source.as_bytes()).unwrap();
        let found: Vec<String> = shapes
            .iter()
            .map(|shape| {
                let value = if shape.returns_value { " =" } else { "" };
                format!("{}({}){value}", shape.name, shape.parameters.join(", "))
            })
            .collect();
        assert_eq!(found, expected, "{source}");
    }

    #[test]
    fn python() {
        check(
            "python",
            "class A:\n    def f(self, a, b: int, *c, d=1, e: int = 2, **g):\n        return a\n    \
             @staticmethod\n    def g():\n        def h(x):\n            return x\n        return\n\
             def k(y): return lambda z: z\ndef l(y: int, *args: str):\n    yield y\n",
            &["f(a, b, c, d, e, g) =", "g()", "h(x) =", "k(y) =", "l(y, args)"],
        );
    }

    #[test]
    fn variables_belong_to_the_function_that_gives_them_a_value() {
        let source = "x = 1\ndef f(a):\n    b, (c, *d) = a\n    for e in b: pass\n    with open(a) as g: pass\n    \
                      if (h := c) and [i for i in d]: b += 1\n    def inner():\n        j = 1\n    b.k = 2\n    \
                      try: pass\n    except E as l: pass\n    m: int = 3\n";
        let shapes = function_shapes(language_named("python").unwrap(), source.as_bytes()).unwrap();
        let locals: Vec<String> = shapes.iter().map(|shape| shape.locals.join(" ")).collect();
        assert_eq!(locals, ["b c d e g h i l m", "j"]);
    }

    #[test]
    fn results_of_closures_are_not_the_functions_own() {
        check(
            "javascript",
            "const f = (a, {b}) => a + 1;\nfunction g(x, y = 2, ...z) { x.map(w => { return w; }); }\n\
             const h = function (q) { return q; };\nclass A { m(p) { return p; } }\nconst i = r => { r(); };\n",
            &["f(a, {b}) =", "g(x, y, z)", "h(q) =", "m(p) =", "i(r)"],
        );
        check("typescript", "function f(this: A, a: number, b?: string): void { a; }\n", &["f(a, b)"]);
        check(
            "go",
            "package p\nfunc (r *T) F(a, b int, c ...string) (n int, err error) { n = a; return n, nil }\n\
             func G() { go func(x int) int { return x }(1); return }\n",
            &["F(a, b, c) =", "G()"],
        );
        check(
            "java",
            "class A { int f(int a, String... b) { return a; } void g() { run(x -> { return x; }); } }\n",
            &["f(a, b) =", "g()"],
        );
        check(
            "rust",
            "impl A { fn f(&self, a: u8) -> u8 { a } fn g(x: u8) { let h = |y: u8| y; h(x); } }\n",
            &["f(a) =", "g(x)"],
        );
        check(
            "php",
            "<?php function f($a, ...$b) { return $a; } function g() { return; }\n",
            &["f($a, $b) =", "g()"],
        );
    }

    #[test]
    fn the_last_expression_is_the_value_where_a_language_has_it_so() {
        check("ruby", "def f(a, b = 1, *c, d: 2, **e, &g)\n  a + b\nend\n", &["f(a, b, c, d, e, g) ="]);
        check("r", "f <- function(a, b = 2, ...) {\n  sapply(a, function(x) x)\n}\n", &["f(a, b, ...) ="]);
        check(
            "kotlin",
            "fun f(a: Int, b: Int): Int = a + b\nfun g(a: Int) { println(a) }\n",
            &["f(a, b) =", "g(a)"],
        );
        check("scala", "def f(a: Int): Int = a\ndef g(a: Int): Unit = { println(a) }\n", &["f(a) =", "g(a)"]);
        check(
            "swift",
            "func f(a: Int, to b: Int) -> Int { return a }\nfunc g() { f() }\n",
            &["f(a, b) =", "g()"],
        );
    }

    #[test]
    fn other_languages() {
        check("c", "int f(int a, char *b) { return a; }\nvoid g(void) { return; }\n", &["f(a, *b) =", "g()"]);
        check(
            "cpp",
            "int f(int a, int b = 1) { auto c = [](int x) { return x; }; return c(a); }\n",
            &["f(a, b) ="],
        );
        check("csharp", "class A { int F(int a) => a; void G(int b) { return; } }\n", &["F(a) =", "G(b)"]);
        check(
            "lua",
            "local function f(a, b)\n  return a\nend\nfunction g()\n  f()\nend\n",
            &["f(a, b) =", "g()"],
        );
        assert_eq!(function_shapes(language_named("markdown").unwrap(), b"# a"), None);
        assert_eq!(function_shapes(language_named("bash").unwrap(), b"f() { :; }"), None);
    }
}
