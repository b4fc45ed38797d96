//! Distinguishes local variables from calls in languages that write both alike.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Range;

/// The role of a range of code for the names in it; at the same start, in the order in which they apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    /// A scope that does not see the variables around it.
    Frame,
    /// A scope that sees the variables around it.
    Block,
    /// A name that is a variable from here to the end of its scope.
    Local,
    /// A name in an expression.
    Bare,
}

/// The ranges of a file that have a [`Role`], in any order.
#[derive(Default)]
pub(crate) struct Names {
    entries: Vec<(usize, Role, Reverse<usize>)>,
}

struct Scope<'source> {
    end: usize,
    /// Depth of the innermost frame.
    frame: usize,
    names: Vec<&'source [u8]>,
}

impl Names {
    pub(crate) fn add(&mut self, role: Role, bytes: Range<usize>) {
        self.entries.push((bytes.start, role, Reverse(bytes.end)));
    }

    /// The bare names that are not variables, in ascending order. Frames and blocks must be nested.
    pub(crate) fn free(mut self, source: &[u8]) -> Vec<Range<usize>> {
        self.entries.sort_unstable();
        let mut free = Vec::new();
        let mut scopes: Vec<Scope> = Vec::new();
        // Depths of the scopes that declare each name, outermost first.
        let mut depths: HashMap<&[u8], Vec<usize>> = HashMap::new();
        for (start, role, Reverse(end)) in self.entries {
            while let Some(scope) = scopes.pop_if(|scope| scope.end <= start) {
                for name in scope.names {
                    depths.entry(name).or_default().pop();
                }
            }
            let name = &source[start..end];
            let frame = scopes.last().map_or(0, |scope| scope.frame);
            let depth = scopes.len();
            match role {
                Role::Frame => scopes.push(Scope { end, frame: depth + 1, names: Vec::new() }),
                Role::Block => scopes.push(Scope { end, frame, names: Vec::new() }),
                Role::Local => {
                    depths.entry(name).or_default().push(depth);
                    if let Some(scope) = scopes.last_mut() {
                        scope.names.push(name);
                    }
                }
                Role::Bare => {
                    let declared = depths.get(name).and_then(|depths| depths.last());
                    if declared.is_none_or(|depth| *depth < frame) {
                        free.push(start..end);
                    }
                }
            }
        }
        free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `{` opens a frame, `[` a block, `=x` declares, `x` is bare.
    fn check(source: &str, expected: &[usize]) {
        let mut names = Names::default();
        let mut open = Vec::new();
        for (at, character) in source.char_indices() {
            match character {
                '{' => open.push((Role::Frame, at)),
                '[' => open.push((Role::Block, at)),
                '}' | ']' => {
                    let (role, start) = open.pop().unwrap();
                    names.add(role, start..at + 1);
                }
                'a'..='z' if source[..at].ends_with('=') => names.add(Role::Local, at..at + 1),
                'a'..='z' => names.add(Role::Bare, at..at + 1),
                _ => {}
            }
        }
        let free: Vec<_> = names.free(source.as_bytes()).into_iter().map(|bytes| bytes.start).collect();
        assert_eq!(free, expected, "{source}");
    }

    #[test]
    fn variables_end_with_their_scope() {
        check("x =x x y", &[0, 7]);
        check("=x {x =y y} y", &[4, 12]);
        check("=x [x =y y] y x", &[12]);
        check("=x [=x {x}] x", &[8]);
        check("{[=x [x]] x}", &[10]);
    }
}
