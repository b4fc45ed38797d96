//! Pasted issues, traces and messages lead to the function behind them.

use std::time::Instant;

use quarry_index::Filter;

use crate::{Tree, answer, request, tree};

const FILES: [(&str, &str); 6] = [
    (
        "src/shop/cart.py",
        "\"\"\"Carts.\"\"\"\n\nfrom .errors import TaxError\n\n\nclass Cart:\n    def add(self, item):\n        self.items.append(item)\n\n    \
         def total(self):\n        return sum(item.price for item in self.items) + tax_of(self)\n\n\ndef tax_of(cart):\n    if cart.country is None:\n        \
         raise TaxError('no tax for %s in %d countries' % (cart, 3))\n    return round_up(cart)\n",
    ),
    (
        "src/shop/errors.py",
        "class TaxError(Exception):\n    \"\"\"There is no tax of a cart, in no country.\"\"\"\n",
    ),
    (
        "src/shop/report.py",
        "def total(orders):\n    \"\"\"Total of all orders of a year, with tax.\"\"\"\n    return sum(orders)\n\n\ndef prepend_scheme_if_needed(url):\n    \
         return url if '://' in url else 'http://' + url\n",
    ),
    (
        "src/shop/printing.py",
        "def print_receipt(cart):\n    print('Thank you for your visit')\n    print(cart.total())\n",
    ),
    (
        "tests/test_cart.py",
        "def test_tax():\n    with raises(TaxError, match='no tax for cart in 3 countries'):\n        Cart().total()\n\n\n\
         def test_visit():\n    assert visits(), 'the shop must not be closed'\n",
    ),
    (
        "docs/tax.md",
        "# Taxes\n\nThe message `no tax for x in 3 countries` means that a cart has no country.\n",
    ),
];

impl Tree {
    fn names(&self, query: &str) -> Vec<String> {
        let filter = Filter::default();
        let ranked = self.index.rank(&request(query, &filter)).unwrap();
        let hits = self.index.response(&ranked, 10).hits;
        let explanations = self.index.explain(&ranked, &hits).unwrap();
        for (hit, explanation) in hits.iter().zip(&explanations) {
            assert_eq!(hit.score, explanation.value, "{query}");
            assert!(hit.score.is_finite(), "{query}");
            assert!(hit.parts.message == 0.0 || hit.score <= 1.0, "{query}: {}", hit.score);
        }
        hits.into_iter().map(|hit| hit.name).collect()
    }

    #[track_caller]
    fn check_first(&self, query: &str, expected: &str) {
        let names = self.names(query);
        assert_eq!(names.first().map(String::as_str), Some(expected), "{query}: {names:?}");
    }
}

#[test]
fn a_trace_leads_to_the_innermost_function_of_the_tree() {
    let tree = tree(&FILES);
    // With another prefix, and lines that have moved.
    tree.check_first(
        "It crashes\n\nTraceback (most recent call last):\n  File \"/usr/lib/python3/site-packages/shop/printing.py\", line 90, in print_receipt\n    \
         print(cart.total())\n  File \"/usr/lib/python3/site-packages/shop/cart.py\", line 70, in total\n    return x\n  \
         File \"/usr/lib/python3/site-packages/shop/cart.py\", line 99, in tax_of\n    raise TaxError()\nshop.errors.TaxError: no tax for Cart in 3 countries\n",
        "tax_of",
    );
}

#[test]
fn code_that_prints_a_message_ranks_before_tests_documents_and_its_class() {
    let tree = tree(&FILES);
    for message in [
        "no tax for %s in %d countries",
        "no tax for 'x' in 12 countries",
        "\"no tax for <Cart at 0x12> in 7 countries\"",
        "shop.errors.TaxError: no tax for 'x' in 12 countries",
        "It fails\n\nTaxError: no tax for 'x' in 12 countries\n",
    ] {
        tree.check_first(message, "tax_of");
    }
    tree.check_first("Thank you for your visit", "print_receipt");
    // Only a test prints it.
    tree.check_first("the shop must not be closed: 'x'", "test_visit");
}

#[test]
fn names_in_an_issue_lead_to_definitions_in_their_scope() {
    let tree = tree(&FILES);
    tree.check_first("Wrong sum\n\nWhen I call `Cart.total` the sum is off.\n", "Cart.total");
    tree.check_first(
        "Wrong sum\n\nI call this:\n\n```python\nfrom shop import report\nreport.total(orders)\n```\n",
        "total",
    );
}

#[test]
fn a_misspelled_symbol_is_found_with_several_edits() {
    tree(&FILES).check_first("preprend_sheme_if_neded", "prepend_scheme_if_needed");
}

#[test]
fn hostile_texts_are_answered_in_time() {
    let tree = tree(&FILES);
    for unit in [
        "a",
        "(",
        ".",
        "1",
        "a.b(",
        "x\n",
        "total ",
        "File \"cart.py\", line 1, in total\n",
        "cart.py:1 ",
        "é",
        "`",
    ] {
        let text = unit.repeat((64 << 10) / unit.len());
        for query in [format!("total\n{text}"), text] {
            let start = Instant::now();
            // Text without a word is refused.
            let _ = answer(&tree.index, &query);
            assert!(start.elapsed().as_secs_f32() < 2.0, "{unit:?} took {:?}", start.elapsed());
        }
    }
}
