use tree_sitter::TreeCursor;

/// Moves a cursor to the next node in the order of the text: into its node if it is to descend, else past it. Returns
/// false after the last one below the node where the cursor began.
pub(crate) fn goto_next(cursor: &mut TreeCursor, descends: bool) -> bool {
    if descends && cursor.goto_first_child() {
        return true;
    }
    while !cursor.goto_next_sibling() {
        if !cursor.goto_parent() {
            return false;
        }
    }
    true
}
