//! Frames of stack traces: one line, or two for languages that print the function and the place on lines of their own.

use super::position::{Position, leading_number};

/// A frame of a stack trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The file and line; `None` if the trace names the function alone.
    pub position: Option<Position<'a>>,
    /// The function as written, without arguments: `Cart.total`, `shop::cart::total`, `shop.(*Cart).Total`; empty if the
    /// trace does not give it.
    pub function: &'a str,
}

/// Order of the frames of a trace, by the one that comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// The one that failed.
    InnermostFirst,
    /// The one that the program started with (Python).
    OutermostFirst,
}

/// The frame on a line; `before` is the line before it, which holds the function in traces of Go and Rust.
pub(super) fn frame<'a>(line: &'a str, before: &'a str) -> Option<(Frame<'a>, Order)> {
    let text = line.trim();
    let innermost_first = |frame| (frame, Order::InnermostFirst);
    if let Some(rest) = text.strip_prefix("File ") {
        return python(rest).map(|frame| (frame, Order::OutermostFirst));
    }
    if let Some(rest) = text.strip_prefix("at ") {
        return at(rest, before).map(innermost_first);
    }
    if let Some(rest) = text.strip_prefix('#') {
        return numbered(rest).map(innermost_first);
    }
    ruby(text)
        .or_else(|| go(line, before))
        .or_else(|| firefox(text))
        .or_else(|| panicked(text))
        .map(innermost_first)
        .or_else(|| pytest(text).or_else(|| notebook(text)).map(|frame| (frame, Order::OutermostFirst)))
}

/// `"a.py", line 12, in total`, and IPython's `a.py:12, in total(self)`.
fn python(rest: &str) -> Option<Frame<'_>> {
    let (position, after) = match rest.strip_prefix('"') {
        Some(quoted) => {
            let (path, after) = quoted.split_once("\", line ")?;
            (Position { path, line: leading_number(after) }, after)
        }
        None => {
            let (place, _) = rest.split_once(", in ")?;
            (Position::parse(place)?, rest)
        }
    };
    let function = after.split_once(", in ").map_or("", |(_, function)| function);
    (!position.path.is_empty())
        .then(|| Frame { position: Some(position), function: without_arguments(function) })
}

/// A frame after `at`, in JavaScript, Java, C# and Rust.
fn at<'a>(rest: &'a str, before: &'a str) -> Option<Frame<'a>> {
    let rest = rest.trim_start_matches("async ").trim_start_matches("new ");
    if let Some((function, place)) = rest.split_once(") in ") {
        let position = Position::parse(place)?;
        return Some(Frame { position: Some(position), function: without_arguments(function) });
    }
    if let Some((function, place)) = rest.strip_suffix(')').and_then(|rest| rest.rsplit_once('(')) {
        let function = without_arguments(function).trim_end_matches(" [as");
        let function = function.rsplit_once('/').map_or(function, |(_, function)| function);
        if is_function(function) {
            // Java's modules and C# without sources have no position.
            let position = Position::parse(place);
            let is_java =
                place.is_empty() || ["Native Method", "Unknown Source", "<anonymous>"].contains(&place);
            return (position.is_some() || is_java || rest.ends_with("()"))
                .then_some(Frame { position, function });
        }
    }
    let position = Position::parse(rest).filter(|position| position.line.is_some())?;
    Some(Frame { position: Some(position), function: numbered_function(before) })
}

/// Rust's `  12: shop::cart::total`, on the line before its place.
fn numbered_function(line: &str) -> &str {
    let Some((number, function)) = line.trim().split_once(": ") else { return "" };
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let function =
        function.split_once("::h").filter(|(_, hash)| is_hash(hash)).map_or(function, |(name, _)| name);
    if is_number && is_function(function) { function } else { "" }
}

fn is_hash(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A frame after `#`, in traces of PHP, of gdb and of sanitizers.
fn numbered(rest: &str) -> Option<Frame<'_>> {
    leading_number(rest)?;
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
    if let Some((place, function)) = rest.split_once("): ") {
        // PHP: `/a/b.php(12): Cart->total(Array)`.
        let (path, line) = place.rsplit_once('(')?;
        let position = Position { path, line: Some(leading_number(line)?) };
        return Some(Frame { position: Some(position), function: without_arguments(function) });
    }
    let rest = match rest.split_once(" in ") {
        Some((address, rest)) if address.starts_with("0x") => rest,
        _ => rest,
    };
    if let Some((function, place)) = rest.rsplit_once(" at ") {
        let position = Position::parse(place)?;
        return Some(Frame { position: Some(position), function: without_arguments(function) });
    }
    let (function, place) = rest.rsplit_once(' ').unwrap_or((rest, ""));
    let position = Position::parse(place).filter(|position| position.line.is_some());
    let function = without_arguments(function);
    is_function(function).then_some(Frame { position, function })
}

/// ``a.rb:12:in `total'``, since Ruby 3.4 `a.rb:12:in 'Cart#total'`; later frames begin with `from`.
fn ruby(text: &str) -> Option<Frame<'_>> {
    let text = text.strip_prefix("from ").unwrap_or(text);
    let (place, function) = text.split_once(":in `").or_else(|| text.split_once(":in '"))?;
    let position = Position::parse(place).filter(|position| position.line.is_some())?;
    let (function, _) = function.split_once('\'')?;
    let function = function.rsplit(" in ").next().unwrap_or_default();
    Some(Frame { position: Some(position), function })
}

/// Go's place, which is indented and ends with an offset or nothing; the function is on the line before.
fn go<'a>(line: &'a str, before: &'a str) -> Option<Frame<'a>> {
    let text = line.trim();
    let place = text.rsplit_once(" +0x").map_or(text, |(place, _)| place);
    let is_place = line.starts_with(['\t', ' ']) && place.contains(".go:") && !place.contains(' ');
    if !is_place {
        return None;
    }
    let position = Position::parse(place).filter(|position| position.line.is_some())?;
    let function = before.trim().trim_start_matches("created by ");
    let function = function.split_once(" in goroutine").map_or(function, |(function, _)| function);
    // Arguments come last: a receiver is in parentheses as well.
    let function =
        function.rsplit_once('(').filter(|(_, rest)| rest.ends_with(')')).map_or(function, |(name, _)| name);
    let function = function.rsplit('/').next().unwrap_or_default();
    Some(Frame { position: Some(position), function: if is_function(function) { function } else { "" } })
}

/// `total@https://example.org/cart.js:12:5`.
fn firefox(text: &str) -> Option<Frame<'_>> {
    let (function, place) = text.split_once('@')?;
    let is_name = function.chars().all(|c| c.is_alphanumeric() || "_$./<>*".contains(c));
    let position = Position::parse(place).filter(|position| position.line.is_some() && is_name)?;
    Some(Frame { position: Some(position), function: function.trim_end_matches("/<") })
}

/// Rust's `thread 'main' panicked at src/a.rs:12:5:`, before 1.73 `panicked at 'message', src/a.rs:12:5`.
fn panicked(text: &str) -> Option<Frame<'_>> {
    let (_, rest) = text.split_once("panicked at ")?;
    let place = rest.rsplit_once("', ").map_or(rest, |(_, place)| place);
    let position = Position::parse(place).filter(|position| position.line.is_some())?;
    Some(Frame { position: Some(position), function: "" })
}

/// pytest's `a.py:12: in total`.
fn pytest(text: &str) -> Option<Frame<'_>> {
    let (place, function) = text.split_once(": in ")?;
    let position = Position::parse(place).filter(|position| position.line.is_some())?;
    Some(Frame { position: Some(position), function: without_arguments(function) })
}

/// The head of a frame in IPython before version 8: `~/shop/cart.py in total(self)`.
fn notebook(text: &str) -> Option<Frame<'_>> {
    let (place, function) = text.split_once(" in ")?;
    // As a link in some editors: `[cart.py](file:///shop/cart.py)`.
    let place =
        place.strip_prefix('[').and_then(|place| place.split_once("](")).map_or(place, |(place, _)| place);
    if !place.ends_with(".py") || place.contains(' ') || !function.ends_with(')') {
        return None;
    }
    Some(Frame {
        position: Some(Position { path: place, line: None }),
        function: without_arguments(function),
    })
}

/// A function without its arguments and generics. A receiver in parentheses (`(*Cart)`) stays.
fn without_arguments(function: &str) -> &str {
    let function = function.trim();
    let from = if function.starts_with('(') { function.find(')').unwrap_or_default() } else { 0 };
    let end = function[from..].find(['(', '{']).map_or(function.len(), |at| from + at);
    let kept = function[..end].trim();
    if kept.ends_with('.') { function } else { kept }
}

/// Returns true if a text may be the name of a function: one word, with separators of scopes.
fn is_function(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 512
        && text.contains(char::is_alphabetic)
        && text.chars().all(|c| c.is_alphanumeric() || "_$.:<>*()[]#~-&`,;@".contains(c))
}

impl<'a> Frame<'a> {
    /// The name of the function itself, without scopes: `total` of `shop.(*Cart).Total` in its own spelling; empty for
    /// code outside of functions.
    pub fn own_name(&self) -> &'a str {
        let mut parts = self.scopes();
        parts.next().unwrap_or_default()
    }

    /// The names in the function's name, the innermost first; lambdas and the like are left out.
    pub fn scopes(&self) -> impl Iterator<Item = &'a str> {
        let is_name = |part: &&str| {
            !part.is_empty()
                && !["module", "locals", "anonymous", "lambda", "listcomp", "closure", "impl"].contains(part)
                && !is_closure(part)
        };
        self.function.rsplit(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$')).filter(is_name)
    }
}

/// Go's `func1`, and Kotlin's and Java's `lambda$total$0`.
fn is_closure(part: &str) -> bool {
    let rest = part.strip_prefix("func").unwrap_or("x");
    part.bytes().all(|byte| byte.is_ascii_digit())
        || !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, before: &str, path: &str, at: impl Into<Option<u32>>, own_name: &str) {
        let found = frame(line, before).map(|(frame, _)| frame);
        let found = found.unwrap_or_else(|| unreachable!("{line} is a frame"));
        let position = found.position.map_or(("", None), |position| (position.path, position.line));
        assert_eq!((position, found.own_name()), ((path, at.into()), own_name), "{line}");
    }

    #[test]
    fn frames_of_every_language_are_read() {
        check("  File \"/app/shop/cart.py\", line 12, in total", "", "/app/shop/cart.py", 12, "total");
        check("  File \"/app/shop/cart.py\", line 12, in <module>", "", "/app/shop/cart.py", 12, "");
        check("File ~/shop/cart.py:12, in Cart.total(self, tax)", "", "~/shop/cart.py", 12, "total");
        check("~/shop/cart.py in total(self, tax)", "", "~/shop/cart.py", None, "total");
        check("shop/cart.py:12: in total", "", "shop/cart.py", 12, "total");
        check("    at Cart.total (/app/src/cart.js:12:5)", "", "/app/src/cart.js", 12, "total");
        check("    at async Cart.total (file:///app/src/cart.ts:12:5)", "", "/app/src/cart.ts", 12, "total");
        check("    at /app/src/cart.js:12:5", "", "/app/src/cart.js", 12, "");
        check("total@https://example.org/js/cart.js:12:5", "", "https://example.org/js/cart.js", 12, "total");
        check("\tat org.shop.Cart.total(Cart.java:12)", "", "Cart.java", 12, "total");
        check("\tat org.shop.Cart.total(Native Method)", "", "", None, "total");
        check("\tat app//org.shop.CartKt.total(Cart.kt:12)", "", "Cart.kt", 12, "total");
        check(
            "   at Shop.Cart.Total(Int32 tax) in C:\\shop\\Cart.cs:line 12",
            "",
            "C:\\shop\\Cart.cs",
            12,
            "Total",
        );
        check("   at Shop.Cart.Total()", "", "", None, "Total");
        check(
            "\t/go/src/shop/cart.go:12 +0x1d",
            "shop/cart.(*Cart).Total(0xc0000, 0x1)",
            "/go/src/shop/cart.go",
            12,
            "Total",
        );
        check("\t/go/src/shop/cart.go:12", "main.Total.func1()", "/go/src/shop/cart.go", 12, "Total");
        check(
            "             at ./src/cart.rs:12:5",
            "   4: shop::cart::Cart::total",
            "src/cart.rs",
            12,
            "total",
        );
        check("thread 'main' panicked at src/cart.rs:12:5:", "", "src/cart.rs", 12, "");
        check("thread 'main' panicked at 'no tax', src/cart.rs:12:5", "", "src/cart.rs", 12, "");
        check("cart.rb:12:in `total'", "", "cart.rb", 12, "total");
        check("\tfrom lib/shop/cart.rb:12:in 'Shop::Cart#total'", "", "lib/shop/cart.rb", 12, "total");
        check("from lib/cart.rb:12:in `block in total'", "", "lib/cart.rb", 12, "total");
        check("#0 /app/src/Cart.php(12): Shop\\Cart->total(Array)", "", "/app/src/Cart.php", 12, "total");
        check("#1 0x55d in cart_total /src/cart.c:12:3", "", "/src/cart.c", 12, "cart_total");
        check("#0  cart_total (cart=0x0) at ../src/cart.c:12", "", "../src/cart.c", 12, "cart_total");
        check("#3  0x00007f in cart_total (cart=0x0) at src/cart.c:12", "", "src/cart.c", 12, "cart_total");
        check("#4 0x7f in shop::Cart::total(int) (/lib/libshop.so+0x12)", "", "", None, "total");
    }

    #[test]
    fn other_lines_are_not_frames() {
        for line in [
            "",
            "at",
            "at home",
            "#",
            "#12",
            "# Heading",
            "#123 is a similar issue",
            "File not found",
            "in total",
            "File \"",
            "from here to there",
            "a@b",
            "mail me at me@example.org",
            "at 12:30",
            "(",
            "at (",
            "at )(",
            "((((",
            "look at this (example.org)",
            "see the file in total(1)",
        ] {
            assert_eq!(frame(line, "").map(|(frame, _)| frame), None, "{line}");
        }
    }
}
