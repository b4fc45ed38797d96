//! Callers and callees, in small trees of several languages.

use std::fs;

use quarry_index::{CallSite, Filter, Hit, Index, OpenOptions, UserDirectories};
use quarry_test_support::files;
use quarry_walk::WalkChoice;

/// A tree of files, each given as path and content.
struct Tree {
    directory: tempfile::TempDir,
}

impl Tree {
    fn new(files: &[(&str, &str)]) -> Self {
        let tree = Self { directory: tempfile::tempdir().unwrap() };
        files.iter().for_each(|(path, content)| tree.write(path, content));
        tree
    }

    fn write(&self, path: &str, content: &str) {
        files::write(self.directory.path().join("tree").join(path), content);
    }

    fn index(&self) -> Index {
        self.index_with(WalkChoice::default())
    }

    fn index_with(&self, walk: WalkChoice) -> Index {
        let options = OpenOptions {
            walk,
            user: UserDirectories::below(&self.directory.path().join("user")),
            ..OpenOptions::default()
        };
        Index::open_or_build(&self.directory.path().join("tree"), &options, None, &|_| {}).unwrap().index
    }

    /// Checks the callers of a definition: `path:line`, followed by `?` if uncertain.
    #[track_caller]
    fn check_callers(&self, name: &str, expected: &[&str]) {
        let index = self.index();
        let definitions = index.definitions_of(name, &Filter::default());
        let sites = index.callers(name, &definitions, &Filter::default()).unwrap().found;
        assert_eq!(sites.iter().map(shown).collect::<Vec<_>>(), expected, "{sites:#?}");
    }

    /// Checks the callees of a definition: `name path:line`, or `name -` if it is outside of the tree.
    #[track_caller]
    fn check_callees(&self, name: &str, expected: &[&str]) {
        let index = self.index();
        let definitions = index.definitions_of(name, &Filter::default());
        assert_eq!(definitions.len(), 1, "{definitions:?}");
        let callees = index.callees(&definitions[0]).unwrap().found;
        let shown = callees.iter().map(|callee| {
            let places: Vec<String> =
                callee.definitions.iter().map(|unit| place(&index.unit(*unit))).collect();
            let places = if places.is_empty() { "-".to_owned() } else { places.join(" ") };
            let doubt = if callee.is_certain || callee.definitions.is_empty() { "" } else { "?" };
            format!("{} {places}{doubt}", callee.name)
        });
        assert_eq!(shown.collect::<Vec<_>>(), expected, "{callees:#?}");
    }
}

fn shown(site: &CallSite) -> String {
    format!("{}:{}{}", site.path, site.line, if site.is_certain { "" } else { "?" })
}

fn place(hit: &Hit) -> String {
    format!("{}:{}", hit.path, hit.start_line)
}

#[test]
fn python() {
    let tree = Tree::new(&[
        (
            "shop/price.py",
            "def total(items):\n    return sum(items)\n\n\nclass Cart:\n    def __init__(self, name):\n        self.name = name\n\n    def load(self, path):\n        return open(path)\n\n    def reload(self):\n        return self.load(self.name)\n",
        ),
        (
            "shop/store.py",
            "class Store:\n    def load(self, key):\n        return key\n\n\ndef open(path):\n    return path\n",
        ),
        (
            "main.py",
            "from shop.price import Cart, total as add_up\nfrom shop import price\nimport os\n\n\ndef main(thing):\n    cart = Cart('a')\n    cart.load('b')\n    thing.load('c')\n    os.load('d')\n    print(add_up([]), price.total([1]))\n\n\ndef other():\n    return add_up([2])\n",
        ),
        ("other.py", "def total(x):\n    return x\n\n\ndef twice(x):\n    return total(x) + total(x)\n"),
    ]);
    tree.check_callers("shop/price/total", &["main.py:11", "main.py:11", "main.py:15"]);
    tree.check_callers("other/total", &["other.py:6", "other.py:6"]);
    tree.check_callers("Cart.load", &["main.py:8", "main.py:9?", "shop/price.py:13"]);
    tree.check_callers("Store.load", &["main.py:9?"]);
    tree.check_callers("Cart", &["main.py:7"]);
    tree.check_callers("Cart.__init__", &["main.py:7"]);
    // A function of another file that is not imported is not the one that is called.
    tree.check_callers("open", &[]);
    tree.check_callers("print", &["main.py:11?"]);
    tree.check_callees(
        "main",
        &[
            "Cart shop/price.py:5",
            "cart.load shop/price.py:9",
            "thing.load shop/price.py:9 shop/store.py:2?",
            "os.load -",
            "print -",
            "add_up shop/price.py:1",
        ],
    );
}

#[test]
fn rust() {
    let tree = Tree::new(&[
        (
            "src/folder.rs",
            "pub struct Folder;\n\nimpl Folder {\n    pub fn open(path: &str) -> Self {\n        Self::check(path);\n        Folder\n    }\n\n    fn check(path: &str) {}\n\n    pub fn lock(&self) {}\n}\n\npub fn open(path: &str) {}\n",
        ),
        (
            "src/door.rs",
            "pub struct Door;\n\nimpl Door {\n    pub fn open(&self) {}\n    pub fn lock(&self) {}\n}\n",
        ),
        (
            "src/main.rs",
            "mod door;\nmod folder;\nuse crate::folder::{self, Folder};\n\nfn main() {\n    let here = Folder::open(\"a\");\n    here.lock();\n    folder::open(\"b\");\n    let file = std::fs::File::open(\"c\");\n    unknown().lock();\n    println!(\"{}\", helper());\n}\n\nfn helper() -> u8 { 1 }\n",
        ),
    ]);
    tree.check_callers("Folder::open", &["src/main.rs:6"]);
    tree.check_callers("folder::open", &["src/main.rs:8"]);
    tree.check_callers("Folder.check", &["src/folder.rs:5"]);
    tree.check_callers("Folder.lock", &["src/main.rs:7", "src/main.rs:10?"]);
    tree.check_callers("Door.lock", &["src/main.rs:10?"]);
    tree.check_callers("helper", &["src/main.rs:11"]);
}

#[test]
fn typescript() {
    let tree = Tree::new(&[
        (
            "src/price.ts",
            "export function total(items: number[]): number {\n  return items.length;\n}\n\nexport class Cart {\n  constructor(private name: string) {}\n\n  load(): void {\n    this.clear();\n  }\n\n  clear(): void {}\n}\n",
        ),
        (
            "src/other.ts",
            "export function total(): number {\n  return 0;\n}\n\nexport class Bin {\n  clear(): void {}\n}\n",
        ),
        (
            "app.ts",
            "import { Cart, total as sum } from './src/price';\nimport * as other from './src/other';\n\nexport function start(bin: other.Bin): void {\n  const cart = new Cart('a');\n  cart.load();\n  bin.clear();\n  sum([1]);\n  other.total();\n  total();\n  console.log(1);\n}\n",
        ),
    ]);
    tree.check_callers("price/total", &["app.ts:8"]);
    tree.check_callers("other/total", &["app.ts:9"]);
    tree.check_callers("Cart.clear", &["src/price.ts:9"]);
    tree.check_callers("Bin.clear", &["app.ts:7"]);
    tree.check_callers("Cart.load", &["app.ts:6"]);
    tree.check_callers("Cart.constructor", &["app.ts:5"]);
}

#[test]
fn go() {
    let tree = Tree::new(&[
        (
            "internal/cart/cart.go",
            "package cart\n\ntype Cart struct{}\n\nfunc New() *Cart {\n\treturn build()\n}\n\nfunc (c *Cart) Load() {}\n",
        ),
        ("internal/cart/build.go", "package cart\n\nfunc build() *Cart {\n\treturn &Cart{}\n}\n"),
        (
            "internal/shop/shop.go",
            "package shop\n\nfunc New() int {\n\treturn 1\n}\n\nfunc build() int {\n\treturn New()\n}\n",
        ),
        (
            "main.go",
            "package main\n\nimport (\n\t\"fmt\"\n\n\t\"example.org/me/app/internal/cart\"\n)\n\nfunc run(c *cart.Cart) {\n\tfmt.Println(cart.New())\n\tc.Load()\n}\n",
        ),
    ]);
    tree.check_callers("cart/New", &["main.go:10"]);
    tree.check_callers("shop/shop/New", &["internal/shop/shop.go:8"]);
    tree.check_callers("cart/build/build", &["internal/cart/cart.go:6"]);
    tree.check_callers("Cart.Load", &["main.go:11"]);
    tree.check_callees(
        "run",
        &["fmt.Println -", "cart.New internal/cart/cart.go:5", "c.Load internal/cart/cart.go:9"],
    );
}

#[test]
fn java() {
    let tree = Tree::new(&[
        (
            "src/com/shop/Cart.java",
            "package com.shop;\n\npublic class Cart {\n    public Cart(String name) {}\n\n    public int total() {\n        return add(1, 2);\n    }\n\n    private int add(int a, int b) {\n        return a + b;\n    }\n\n    public static Cart load(String path) {\n        return new Cart(path);\n    }\n}\n",
        ),
        (
            "src/com/other/Sums.java",
            "package com.other;\n\npublic class Sums {\n    public int add(int a, int b) {\n        return a + b;\n    }\n\n    public int total() {\n        return 0;\n    }\n}\n",
        ),
        (
            "src/com/app/Main.java",
            "package com.app;\n\nimport com.shop.Cart;\nimport com.other.Sums;\n\nclass Main {\n    void run(Sums sums) {\n        Cart cart = Cart.load(\"a\");\n        cart.total();\n        sums.total();\n        List.of(1);\n    }\n}\n",
        ),
    ]);
    tree.check_callers("Cart.load", &["src/com/app/Main.java:8"]);
    tree.check_callers("Cart.total", &["src/com/app/Main.java:9"]);
    tree.check_callers("Sums.total", &["src/com/app/Main.java:10"]);
    tree.check_callers("Cart.add", &["src/com/shop/Cart.java:7"]);
    tree.check_callers("Sums.add", &[]);
}

#[test]
fn calls_stay_in_their_tree() {
    let directory = tempfile::tempdir().unwrap();
    let write = |path: &str, content: &str| files::write(directory.path().join(path), content);
    write(
        "app/main.py",
        "from shop import total\nimport shop\n\n\ndef main(data):\n    total(data.items())\n    shop.Map.of(1)\n",
    );
    write(
        "site/shop.py",
        "def total(x):\n    return x\n\n\nclass Map:\n    def items(self):\n        return []\n\n    def of(x):\n        return main(x)\n",
    );
    let user = UserDirectories::below(&directory.path().join("user"));
    let options = OpenOptions { user, ..OpenOptions::default() };
    let trees = ["app", "site"].map(|name| directory.path().join(name));
    let check = |external: &str| {
        let paths = trees.each_ref().map(|tree| (tree.as_path(), &options));
        let opened = Index::open_or_build_all(&paths, None, &|_| {}).unwrap();
        let index = Index::merge(opened.into_iter().map(|opened| opened.index).collect()).unwrap();
        for (name, expected) in [("main", external), ("of", "main")] {
            let definition = &index.definitions_of(name, &Filter::default())[0];
            let callees = index.callees(definition).unwrap().found;
            assert!(callees.iter().all(|callee| callee.definitions.is_empty()), "{callees:?}");
            let names: Vec<&str> = callees.iter().map(|callee| callee.name.as_str()).collect();
            assert_eq!(names.join(" "), expected);
        }
        let callers =
            index.callers("items", &index.definitions_of("items", &Filter::default()), &Filter::default());
        assert!(callers.unwrap().found.is_empty());
    };
    check("total data.items shop.Map.of");
    // The trees may also have an index together.
    let _ = fs::remove_dir_all(directory.path().join("user"));
    Index::open_or_build(directory.path(), &options, None, &|_| {}).unwrap();
    check("total data.items shop.Map.of");
}

#[test]
fn matches_by_name_only_are_uncertain() {
    let tree = Tree::new(&[
        ("app/__init__.py", "from .model import Path\n"),
        ("app/json.py", "def dumps(x):\n    return x\n"),
        ("app/model.py", "class Path:\n    def exists(self):\n        return True\n"),
        (
            "app/use.py",
            "import json\nfrom app import json as own\n\n\ndef use(x):\n    json.dumps(x)\n    own.dumps(x)\n",
        ),
        (
            "app/other.py",
            "from pathlib import Path\n\n\ndef first():\n    path = Path()\n\n\ndef second(path):\n    path.exists()\n    Path.exists(path)\n",
        ),
        ("main.py", "from app import Path\n\n\ndef main():\n    Path.exists(1)\n"),
    ]);
    tree.check_callees("use", &["json.dumps -", "own.dumps app/json.py:1"]);
    tree.check_callees("second", &["path.exists app/model.py:2?", "Path.exists app/model.py:2?"]);
    tree.check_callees("main", &["Path.exists app/model.py:2"]);
    let go = "package app\n\nimport (\n\t\"errors\"\n\town \"example.org/app/internal/errors\"\n)\n\nfunc run() {\n\terrors.New()\n\town.New()\n}\n";
    let tree =
        Tree::new(&[("app.go", go), ("internal/errors/errors.go", "package errors\n\nfunc New() {}\n")]);
    tree.check_callees("run", &["errors.New -", "own.New internal/errors/errors.go:3"]);
}

#[test]
fn notebooks() {
    let notebook = r##"{
 "cells": [
  {"cell_type": "markdown", "source": ["# Sums"]},
  {"cell_type": "code", "source": [
   "%matplotlib inline\n",
   "from shop import total\n",
   "def double(x):\n",
   "    return twice(total(x))"
  ]},
  {"cell_type": "code", "source": ["def twice(x): return 2 * x"]},
  {"cell_type": "code", "source": ["%%bash\n", "twice 3"]},
  {"cell_type": "code", "source": ["twice(3)"]}
 ],
 "metadata": {}, "nbformat": 4
}"##;
    let shop = "def total(x):\n    return x\n";
    let tree = Tree::new(&[("sums.ipynb", notebook), ("shop.py", shop)]);
    tree.check_callers("twice", &["sums.ipynb:8", "sums.ipynb:12"]);
    tree.check_callers("total", &["sums.ipynb:8"]);
    tree.check_callees("double", &["twice sums.ipynb:10", "total shop.py:1"]);
}

#[test]
fn code_in_markup() {
    let vue = "<template>\n  <p>{{ total() }}</p>\n</template>\n<script setup lang=\"ts\">\nimport { add } from './sum';\n\nfunction total() {\n  return add(1);\n}\n</script>\n";
    let markdown = "# Use\n\n> ```ts\n> function quoted() {\n>   return other();\n> }\n> ```\n\nOr:\n\n```ts\nother();\n```\n";
    let tree = Tree::new(&[
        ("a.vue", vue),
        ("sum.ts", "export function add(n) { return n; }\n"),
        ("a.md", markdown),
    ]);
    tree.check_callers("add", &["a.vue:8"]);
    tree.check_callees("total", &["add sum.ts:1"]);
    tree.check_callers("other", &["a.md:5?", "a.md:12?"]);
    tree.check_callees("quoted", &["other -"]);
}

#[test]
fn a_long_line_is_not_repeated_for_each_of_its_calls() {
    let chain = format!("function g(a) {{ a{}; }}\n", ".f()".repeat(5_000));
    let tree = Tree::new(&[("a.js", &chain)]);
    let calls = tree.index().callers("f", &[], &Filter::default()).unwrap();
    assert_eq!((calls.found.len(), calls.unfinished), (5_000, vec![]));
    assert!(calls.found.iter().all(|site| site.text.len() < 500 && site.text.contains(".f()")));
}

#[test]
fn unreadable_files_are_reported() {
    // Larger than the limit for parsing.
    let text = format!("f();\n{}", "// nothing\n".repeat(3 << 20));
    let tree = Tree::new(&[("a.js", &text), ("b.js", "f();\n")]);
    let index = tree.index_with(WalkChoice { max_bytes: Some(64 << 20), ..WalkChoice::default() });
    let calls = index.callers("f", &[], &Filter::default()).unwrap();
    assert_eq!(calls.found.iter().map(shown).collect::<Vec<_>>(), ["b.js:1?"]);
    let unfinished: Vec<(&str, u32)> =
        calls.unfinished.iter().map(|file| (file.path.as_str(), file.line)).collect();
    assert_eq!(unfinished, [("a.js", 1)]);
    assert!(calls.unfinished[0].reason.contains("limit"), "{}", calls.unfinished[0].reason);
}

#[test]
fn functions_that_are_not_parsed_change_nothing() {
    // The calls are surrounded by functions without the name, some of which are the only members of a class.
    let python = "class A:\n    def one(self):\n        return 1\n\n    def two(self):\n        return 2\n\n\nclass B:\n    def use(self):\n        return wanted(3)\n\n    def other(self):\n        def inner():\n            return wanted(4)\n\n        return inner\n\n\nclass C:\n    def three(self):\n        return [\n            1,\n            2,\n            3,\n        ]\n\n\nwanted(5)\n";
    let script = "const a = {\n  one() { return [1, 2, 3]; },\n  two() { return [1, 2, 3, 4]; },\n  use() { return wanted(); },\n};\n";
    let tree = Tree::new(&[("a.py", python), ("b.js", script)]);
    let calls = tree.index().callers("wanted", &[], &Filter::default()).unwrap().found;
    let shown: Vec<String> = calls
        .iter()
        .map(|site| {
            let caller = site.caller.as_ref().map_or("", |hit| hit.name.as_str());
            format!("{}:{} {caller}", site.path, site.line)
        })
        .collect();
    assert_eq!(shown, ["a.py:11 B.use", "a.py:15 B.other", "a.py:29 ", "b.js:4 a.use"]);
}

#[test]
fn changes_are_seen_at_once() {
    let tree = Tree::new(&[("a.py", "def f():\n    pass\n"), ("b.py", "from a import f\n\nf()\n")]);
    tree.check_callers("f", &["b.py:3"]);
    tree.write("b.py", "from a import f\n\n\ndef g():\n    f()\n");
    tree.write("c.py", "from a import f\nf()\n");
    tree.check_callers("f", &["b.py:5", "c.py:2"]);
}

#[test]
fn definitions_are_found_by_their_name_or_a_line() {
    let tree = Tree::new(&[(
        "pkg/a.py",
        "class A:\n    def f(self):\n        return 1\n\n\ndef f():\n    return 2\n\n\nclass B:\n    def g(self):\n        return 3\n\n\nX = 1\n",
    )]);
    let index = tree.index();
    let places = |name: &str| -> Vec<String> {
        index.definitions_of(name, &Filter::default()).iter().map(place).collect()
    };
    assert_eq!(places("f"), ["pkg/a.py:2", "pkg/a.py:6"]);
    assert_eq!(places("A.f"), ["pkg/a.py:2"]);
    assert_eq!(places("A::f"), ["pkg/a.py:2"]);
    assert_eq!(places("a/f"), ["pkg/a.py:6"]);
    assert_eq!(places("a/g"), ["pkg/a.py:11"]);
    assert_eq!(places("pkg/a/B.g"), ["pkg/a.py:11"]);
    assert_eq!(places("pkg/g"), [""; 0]);
    assert_eq!(places("a.g"), [""; 0]);
    assert_eq!(places("A/G"), ["pkg/a.py:11"]);
    assert_eq!(places("F"), ["pkg/a.py:2", "pkg/a.py:6"]);
    assert_eq!(places("h"), [""; 0]);
    assert_eq!(places(""), [""; 0]);
    let at = |line: u32| index.definition_at("pkg/a.py", line).map(|hit| hit.name);
    assert_eq!((at(3), at(7), at(15)), (Some("A.f".to_owned()), Some("f".to_owned()), None));
}

#[test]
fn packages_of_a_workspace() {
    let tree = Tree::new(&[
        ("packages/common/package.json", r#"{"name": "@shop/common", "main": "dist/index.js"}"#),
        ("packages/common/src/index.ts", "export * from './time';\nexport { total } from './sum.js';\n"),
        ("packages/common/src/time.ts", "export const debounce = (f) => {\n  return f;\n};\n"),
        ("packages/common/src/sum.ts", "export function total(n) {\n  return n;\n}\n"),
        ("packages/common/src/other.ts", "export function total(n) {\n  return n + 1;\n}\n"),
        (
            "packages/cart/package.json",
            r#"{"name": "@shop/cart", "exports": {"./model": "./src/model/cart.ts"}}"#,
        ),
        ("packages/cart/src/model/cart.ts", "export class Cart {\n  add(n) {\n    return n;\n  }\n}\n"),
        (
            "packages/cart/src/model/special.ts",
            "import { Cart } from './cart';\n\nexport class Special extends Cart {\n  twice(n) {\n    return this.add(n) + super.add(n);\n  }\n}\n",
        ),
        (
            "tsconfig.json",
            "{\n  // aliases\n  \"compilerOptions\": {\"paths\": {\"~lib/*\": [\"./packages/common/src/*\"]}},\n}\n",
        ),
        (
            "app/main.ts",
            "import { debounce, total } from '@shop/common';\nimport { Cart } from '@shop/cart/model';\nimport { total as sum } from '~lib/other';\nimport debounceOf, { total as far } from 'lodash';\n\nexport function start(special: Special) {\n  debounce(total(1));\n  sum(2);\n  far(3);\n  new Cart().add(4);\n  const cart = new Cart();\n  cart.add(5);\n  special.add(6);\n}\n",
        ),
    ]);
    tree.check_callers("debounce", &["app/main.ts:7"]);
    tree.check_callers("sum/total", &["app/main.ts:7"]);
    tree.check_callers("other/total", &["app/main.ts:8"]);
    tree.check_callers(
        "Cart.add",
        &[
            "app/main.ts:10?",
            "app/main.ts:12",
            "app/main.ts:13",
            "packages/cart/src/model/special.ts:5",
            "packages/cart/src/model/special.ts:5",
        ],
    );
}

#[test]
fn an_import_that_is_not_resolved_hides_no_call() {
    let tree = Tree::new(&[
        (
            "src/store.ts",
            "export class Store {\n  dispatch(n) {\n    return n;\n  }\n}\n\nexport const made = create();\n",
        ),
        ("src/a/index.ts", "export { run } from './generated';\n"),
        ("src/b.ts", "export function run(n) {\n  return n;\n}\n"),
        (
            "src/main.ts",
            "import { made } from './store';\nimport { run } from './a';\nimport axios, { dispatch } from 'axios';\n\nexport function start() {\n  made.dispatch(1);\n  run(2);\n  axios.dispatch(3);\n  dispatch(4);\n  axios.create().dispatch(5);\n}\n",
        ),
    ]);
    tree.check_callers("Store.dispatch", &["src/main.ts:6?", "src/main.ts:10?"]);
    tree.check_callers("b/run", &["src/main.ts:7?"]);
    let index = tree.index();
    let definitions = index.definitions_of("Store.dispatch", &Filter::default());
    let calls = index.callers("dispatch", &definitions, &Filter::default()).unwrap();
    assert_eq!((calls.n_by_name(), calls.n_elsewhere), (2, 2));
}

#[test]
fn elixir() {
    let tree = Tree::new(&[
        (
            "lib/shop/helpers.ex",
            "defmodule Shop.Helpers do\n  def total(items) do\n    Enum.sum(items)\n  end\n\n  def label(item), do: item\nend\n",
        ),
        ("lib/shop/other.ex", "defmodule Other.Helpers do\n  def total(items) do\n    items\n  end\nend\n"),
        (
            "lib/shop_web.ex",
            "defmodule ShopWeb do\n  def view do\n    quote do\n      import Shop.{Helpers, Missing}\n    end\n  end\n\n  defmacro __using__(which) do\n    apply(__MODULE__, which, [])\n  end\nend\n",
        ),
        (
            "lib/shop/page.ex",
            "defmodule Shop.Page do\n  use ShopWeb, :view\n  alias Other.Helpers, as: Far\n\n  def render(items) do\n    total(items) + Far.total(items)\n    Other.Helpers.total(items)\n  end\nend\n",
        ),
        (
            "lib/shop/plain.ex",
            "defmodule Shop.Plain do\n  import Shop.Helpers, only: [label: 1]\n\n  def render(items) do\n    label(items)\n    Shop.Helpers.total(items)\n    Helpers.total(items)\n  end\nend\n",
        ),
    ]);
    tree.check_callers(
        "Shop.Helpers.total",
        &["lib/shop/page.ex:6", "lib/shop/plain.ex:6", "lib/shop/plain.ex:7?"],
    );
    tree.check_callers(
        "Other.Helpers.total",
        &["lib/shop/page.ex:6", "lib/shop/page.ex:7", "lib/shop/plain.ex:7?"],
    );
}

#[test]
fn bases_across_files() {
    let tree = Tree::new(&[
        ("shop/base.py", "class Base:\n    def load(self, key):\n        return key\n"),
        ("shop/middle.py", "from .base import Base\n\n\nclass Middle(Base):\n    pass\n"),
        (
            "shop/leaf.py",
            "from .middle import Middle\n\n\nclass Leaf(Middle):\n    def use(self):\n        self.load(1)\n        super().load(2)\n\n\nclass Other:\n    def use(self):\n        self.load(3)\n",
        ),
        (
            "shop/far.py",
            "class Far:\n    def load(self):\n        return 1\n\n\nclass Leaf:\n    def load(self):\n        return 2\n",
        ),
        ("shop/__init__.py", "from .leaf import Leaf as Leaf\nfrom .base import Base\n"),
        (
            "app.py",
            "from shop import Base, Leaf\n\n\ndef main(leaf: Leaf, thing: Base):\n    thing.load(4)\n    Leaf.use(leaf)\n",
        ),
    ]);
    tree.check_callers("Base.load", &["app.py:5", "shop/leaf.py:6?", "shop/leaf.py:7", "shop/leaf.py:12?"]);
    tree.check_callers("shop/leaf/Leaf.use", &["app.py:6"]);

    let tree = Tree::new(&[
        (
            "lib/shop/priced.rb",
            "module Shop\n  module Priced\n    def price(item)\n      item\n    end\n  end\nend\n",
        ),
        (
            "lib/shop/base.rb",
            "module Shop\n  class Base\n    def load(key)\n      key\n    end\n  end\nend\n",
        ),
        (
            "lib/shop/cart.rb",
            "module Shop\n  class Cart < Base\n    include Priced\n\n    def total\n      load(1)\n      self.price(2)\n    end\n  end\nend\n",
        ),
        (
            "lib/other.rb",
            "class Other\n  def price(item)\n    item\n  end\n\n  def load(key)\n    key\n  end\nend\n",
        ),
    ]);
    tree.check_callers("Priced.price", &["lib/shop/cart.rb:7"]);
    tree.check_callers("Base.load", &["lib/shop/cart.rb:6"]);
}

#[test]
fn static_imports_and_members_of_packages() {
    let tree = Tree::new(&[
        (
            "src/main/java/com/shop/Matchers.java",
            "package com.shop;\n\npublic class Matchers {\n    public static int any() {\n        return 1;\n    }\n}\n",
        ),
        (
            "src/main/java/com/shop/Shop.java",
            "package com.shop;\n\npublic class Shop extends Matchers {\n    public static int sell() {\n        return 1;\n    }\n}\n",
        ),
        (
            "src/main/java/com/other/Sums.java",
            "package com.other;\n\npublic class Sums {\n    public static int any() {\n        return 1;\n    }\n}\n",
        ),
        (
            "src/test/java/app/MainTest.java",
            "package app;\n\nimport static com.shop.Shop.any;\nimport static com.shop.Shop.*;\n\nclass MainTest {\n    void run() {\n        any();\n        sell();\n    }\n}\n",
        ),
        (
            "src/main/kotlin/com/shop/internal/Util.kt",
            "package com.shop.internal\n\nfun closing(n: Int): Int {\n    return n\n}\n",
        ),
        (
            "src/main/kotlin/com/other/Util.kt",
            "package com.other\n\nfun closing(n: Int): Int {\n    return n\n}\n",
        ),
        (
            "src/main/kotlin/app/Main.kt",
            "package app\n\nimport com.shop.internal.closing\n\nfun main() {\n    closing(1)\n}\n",
        ),
    ]);
    tree.check_callers("Matchers.any", &["src/test/java/app/MainTest.java:8"]);
    tree.check_callers("internal/Util/closing", &["src/main/kotlin/app/Main.kt:6"]);
}

#[test]
fn packages_by_their_manifests() {
    let tree = Tree::new(&[
        ("go.mod", "module example.org/me/shop/v2\n"),
        ("cart/cart.go", "package cart\n\nfunc New() int {\n\treturn 1\n}\n"),
        (
            "main.go",
            "package main\n\nimport (\n\t\"example.org/me/shop/v2/cart\"\n\tfar \"example.org/other/cart\"\n)\n\nfunc run() {\n\tcart.New()\n\tfar.New()\n}\n",
        ),
        ("crates/printer/Cargo.toml", "[package]\nname = \"shop-printer\"\n"),
        ("crates/printer/src/lib.rs", "mod standard;\npub use crate::standard::{Printer, print};\n"),
        (
            "crates/printer/src/standard.rs",
            "pub struct Printer;\n\nimpl Printer {\n    pub fn build() -> Self {\n        Printer\n    }\n}\n\npub fn print(n: u8) {}\n",
        ),
        ("crates/other/src/lib.rs", "pub fn print(n: u8) {}\n"),
        ("crates/shop/src/lib.rs", "pub extern crate shop_printer as printer;\n"),
        ("crates/shop/Cargo.toml", "[package]\nname = \"shop\"\n"),
        (
            "crates/core/main.rs",
            "use shop::printer::{Printer, print};\n\nfn main() {\n    print(1);\n    Printer::build();\n    shop_printer::print(2);\n}\n",
        ),
        ("composer.json", r#"{"autoload": {"psr-4": {"Shop\\": "php/"}}}"#),
        (
            "php/Util/Price.php",
            "<?php\nnamespace Shop\\Util;\nclass Price {\n    public static function of($n) {\n        return $n;\n    }\n}\n",
        ),
        (
            "php/Far/Price.php",
            "<?php\nnamespace Shop\\Far;\nclass Price {\n    public static function of($n) {\n        return $n;\n    }\n}\n",
        ),
        (
            "php/Main.php",
            "<?php\nnamespace Shop;\nuse Shop\\Util\\Price;\nfunction main() {\n    return Price::of(1);\n}\n",
        ),
    ]);
    tree.check_callers("cart/New", &["main.go:9"]);
    tree.check_callers("standard/print", &["crates/core/main.rs:4", "crates/core/main.rs:6"]);
    tree.check_callers("Printer::build", &["crates/core/main.rs:5"]);
    tree.check_callers("Util/Price/Price.of", &["php/Main.php:5"]);
}

#[test]
fn imports_of_a_file_for_itself_pass_on_nothing() {
    let tree = Tree::new(&[
        ("crates/files/Cargo.toml", "[package]\nname = \"my-files\"\n"),
        (
            "crates/files/src/lib.rs",
            "mod whole;\npub use whole::replace;\n\npub fn try_lock(n: u8) {}\n\n#[cfg(test)]\nmod tests {\n    use super::*;\n\n    #[test]\n    fn locks() {\n        try_lock(1);\n    }\n}\n",
        ),
        ("crates/files/src/whole.rs", "pub fn replace(n: u8) {}\n"),
        ("crates/other/Cargo.toml", "[package]\nname = \"other\"\n"),
        (
            "crates/other/src/lib.rs",
            "use my_files::try_lock;\nuse my_files::replace;\n\npub fn run() {\n    try_lock(2);\n    replace(3);\n}\n",
        ),
        ("crates/third/Cargo.toml", "[package]\nname = \"third\"\n"),
        (
            "crates/third/src/lib.rs",
            "pub struct A;\n\nimpl A {\n    pub fn try_lock(&self) {}\n    pub fn replace(&self) {}\n}\n",
        ),
    ]);
    tree.check_callers("lib/try_lock", &["crates/other/src/lib.rs:5", "crates/files/src/lib.rs:12"]);
    tree.check_callers("whole/replace", &["crates/other/src/lib.rs:6"]);
    tree.check_callers("A.try_lock", &[]);
}

#[test]
fn paths_of_rust_need_no_import() {
    let tree = Tree::new(&[
        ("crates/files/Cargo.toml", "[package]\nname = \"my-files\"\n"),
        (
            "crates/files/src/lib.rs",
            "mod whole;\n\npub fn try_lock(n: u8) {}\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn locks() {\n        super::try_lock(1);\n        super::whole::replace(2);\n        crate::try_lock(3);\n    }\n}\n",
        ),
        (
            "crates/files/src/whole.rs",
            "pub fn replace(n: u8) {\n    self::check(n);\n    super::try_lock(4);\n}\n\nfn check(n: u8) {}\n",
        ),
        ("crates/other/Cargo.toml", "[package]\nname = \"other\"\n"),
        (
            "crates/other/src/lib.rs",
            "mod lock;\n\npub fn run(lock: lock::Lock) {\n    my_files::try_lock(5);\n    my_files::whole::replace(6);\n    lock::try_lock(7);\n    lock.try_lock();\n}\n",
        ),
        (
            "crates/other/src/lock.rs",
            "pub struct Lock;\n\nimpl Lock {\n    pub fn try_lock(&self) {}\n    pub fn replace(&self) {}\n    pub fn check(&self) {}\n}\n\npub fn try_lock(n: u8) {}\n",
        ),
        (
            "crates/other/src/index.rs",
            "use crate::lock;\n\npub fn check(n: u8) {\n    lock::try_lock(8);\n}\n\nmod inner {\n    fn run() {\n        super::check(9);\n    }\n}\n",
        ),
        ("crates/other/src/inner/lock.rs", "pub fn try_lock(n: u8) {}\n"),
    ]);
    tree.check_callers(
        "files/src/lib/try_lock",
        &[
            "crates/files/src/whole.rs:3",
            "crates/other/src/lib.rs:4",
            "crates/files/src/lib.rs:9",
            "crates/files/src/lib.rs:11",
        ],
    );
    tree.check_callers("whole/replace", &["crates/other/src/lib.rs:5", "crates/files/src/lib.rs:10"]);
    tree.check_callers("whole/check", &["crates/files/src/whole.rs:2"]);
    tree.check_callers("index/check", &["crates/other/src/index.rs:9"]);
    tree.check_callers("src/lock/try_lock", &["crates/other/src/index.rs:4", "crates/other/src/lib.rs:6"]);
    tree.check_callers("Lock.try_lock", &["crates/other/src/lib.rs:7"]);
}
