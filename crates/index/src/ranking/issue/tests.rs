use super::*;

fn issue(text: &str) -> Issue<'_> {
    Issue::parse(text).unwrap()
}

fn functions(text: &str) -> Vec<(&str, usize)> {
    issue(text).frames.iter().map(|(frame, depth)| (frame.own_name(), *depth)).collect()
}

#[test]
fn ordinary_queries_are_not_issues() {
    for query in [
        "",
        "retry with backoff",
        "Cart.total",
        "src/cart.rs",
        "how is the total of a cart computed?",
        "\n total \n",
    ] {
        assert_eq!(Issue::parse(query), None, "{query}");
    }
    assert!(Issue::parse("src/cart.c:12: error: no tax").is_some());
}

#[test]
fn a_report_is_split_into_its_parts() {
    let text = "[BUG] Total is wrong with `tax`\n\n### Description\n\nThe total of a Cart.checkout is off.\n\n\
        - [x] I have searched for duplicates\n\n```python\nfrom shop.cart import Cart\nCart().total(3)\n```\n\n\
        **Environment**\n- OS: Linux\n- Python 3.9.1\nnumpy 1.2.3\n### More\nSee src/shop/cart.py:12 for it.\n";
    let found = issue(text);
    assert_eq!(found.title, "Total is wrong with `tax`");
    assert_eq!(
        found.prose,
        ["The total of a Cart.checkout is off.", "More", "See src/shop/cart.py:12 for it."]
    );
    assert_eq!(found.code, ["from shop.cart import Cart", "Cart().total(3)"]);
    assert_eq!(found.positions.len(), 1);
    let named = |name: &str, origin| {
        found.names.iter().any(|(found, _)| found.text == name && found.origin == origin)
    };
    assert!(
        named("tax", Origin::Title)
            && named("Cart.checkout", Origin::Prose)
            && named("shop.cart", Origin::Code)
    );
    assert!(found.n_noise >= 5, "{}", found.n_noise);
}

#[test]
fn the_title_of_a_description_is_its_first_sentence() {
    let titles = |text| {
        let found = Issue::split(text);
        (found.title.to_owned(), found.prose.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>())
    };
    let check = |text, title: &str, prose: &[&str]| {
        assert_eq!(titles(text), (title.to_owned(), prose.iter().map(|line| (*line).to_owned()).collect()));
    };
    check(
        "Totals the items, e.g. Apples. Those without a price are ignored.",
        "Totals the items, e.g. Apples.",
        &["Those without a price are ignored."],
    );
    check(
        "Totals the items of\na cart. Those without\na price are ignored.\n",
        "Totals the items of\na cart.",
        &["Those without", "a price are ignored."],
    );
    check("Total is wrong\nIt should be 3\n", "Total is wrong", &["It should be 3"]);
    check("Total is wrong\n\nit should be 3\n", "Total is wrong", &["it should be 3"]);
}

#[test]
fn a_text_is_the_longer_the_more_of_it_describes() {
    let text = "Returns the total of the items in the given cart. Items without a price are ignored. The value must not be negative. \
        Otherwise an error is returned to the caller. The argument is used as it is.";
    let words: Vec<&str> = text.split(' ').collect();
    let share = |n: usize| Issue::share_of_long(&words[..n].join(" "));
    assert_eq!(share(10), 0.0);
    assert!(share(words.len()) > 0.8, "{}", share(words.len()));
    assert_eq!(
        Issue::share_of_long("how is the total of the items in a cart computed if one has no price?"),
        0.0
    );
}

#[test]
fn a_trace_of_python_ends_with_the_innermost_frame() {
    let text = "It fails\nTraceback (most recent call last):\n  File \"/app/main.py\", line 3, in <module>\n    run()\n  \
        File \"/app/shop/cart.py\", line 12, in total\n    return tax(self)\n           ^^^^^^^^^\nshop.errors.TaxError: no tax for 3\n";
    assert_eq!(functions(text), [("", 1), ("total", 0)]);
    let found = issue(text);
    assert_eq!(found.traced, [("run()", 1), ("return tax(self)", 0)]);
    assert_eq!(found.messages, ["shop.errors.TaxError: no tax for 3"]);
}

#[test]
fn traces_of_other_languages_begin_with_it() {
    let java = "Exception in thread \"main\" java.lang.IllegalStateException: no tax\n\tat org.shop.Cart.total(Cart.java:12)\n\t\
        at org.shop.Main.main(Main.java:3)\nCaused by: org.shop.TaxError: none\n\tat org.shop.Tax.of(Tax.java:9)\n\t... 2 more\n";
    assert_eq!(functions(java), [("total", 0), ("main", 1), ("of", 0)]);
    let go = "panic: no tax\n\ngoroutine 1 [running]:\nshop/cart.(*Cart).Total(0xc000)\n\t/app/cart/cart.go:12 +0x1d\nmain.main()\n\t\
        /app/main.go:3 +0x20\nexit status 2\n";
    assert_eq!(functions(go), [("Total", 0), ("main", 1)]);
    assert_eq!(issue(go).messages, ["no tax"]);
    let rust = "thread 'main' panicked at src/tax.rs:9:5:\nno tax\nstack backtrace:\n   0: shop::tax::of\n             at ./src/tax.rs:9:5\n   \
        1: shop::cart::Cart::total\n             at ./src/cart.rs:12:9\n";
    assert_eq!(functions(rust), [("", 0), ("of", 0), ("total", 1)]);
    let gdb =
        "It crashes\n#0  0x0001 in cart_total (cart=0x0) at src/cart.c:12\n#1  main () at src/main.c:3\n";
    assert_eq!(functions(gdb), [("cart_total", 0), ("main", 1)]);
}

#[test]
fn messages_of_compilers_and_logs_are_found() {
    let messages = |text| issue(text).messages.clone();
    assert_eq!(messages("It fails\nsrc/cart.c:12:3: error: no tax of cart\n"), ["no tax of cart"]);
    assert_eq!(messages("It fails\nerror[E0382]: use of moved value\n"), ["use of moved value"]);
    assert_eq!(
        messages("It fails\n2024-01-02 10:11:12,345 ERROR shop: no tax of cart\n"),
        ["no tax of cart"]
    );
    assert_eq!(messages("It fails\n2024-01-02 10:11:12,345 INFO shop: all is well\n"), [""; 0]);
    assert_eq!(messages("It fails\nI get \"no tax of cart\" every time\n"), ["no tax of cart"]);
}

#[test]
fn hostile_texts_take_linear_time() {
    for unit in [
        "a",
        "(",
        "[",
        "`",
        ".",
        "1",
        ":",
        "#",
        "\n",
        "\t",
        "- [ ] ",
        "File \"",
        "at (",
        "> ",
        "a.b:1 ",
        "é",
        "\"",
        "```\n",
        "<!--",
        "  File \"a.py\", line 1, in f\n",
        "Error: ",
        " at a(b.js:1:1)\n",
    ] {
        let text = unit.repeat((64 << 10) / unit.len());
        let start = std::time::Instant::now();
        let _ = Issue::parse(&format!("x\n{text}"));
        let _ = Issue::parse(&text);
        assert!(start.elapsed().as_millis() < 1000, "{unit:?}: {:?}", start.elapsed());
    }
}
