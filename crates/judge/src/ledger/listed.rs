//! The list of pairs that a start judges.

use rusqlite::{OptionalExtension, Transaction, params};

use super::Writer;
use crate::error::JudgeError;
use crate::pair::Pair;

/// The conflict of a pair with a stored pair that uses its query or code id for another text. It suffices to check
/// the first stored pair with the id.
fn conflict(transaction: &Transaction<'_>, pair: &Pair) -> rusqlite::Result<Option<String>> {
    for (what, of, text, language, select) in [
        (
            "its query id",
            &pair.query_id,
            &pair.query,
            "",
            "SELECT id, query, '' FROM pairs WHERE query_id = ?1 ORDER BY pair LIMIT 1",
        ),
        (
            "its code id",
            &pair.code_id,
            &pair.code,
            pair.language.as_str(),
            "SELECT id, code, language FROM pairs WHERE code_id = ?1 ORDER BY pair LIMIT 1",
        ),
    ] {
        let mut select = transaction.prepare_cached(select)?;
        let found = select.query_row([of], |row| {
            Ok((row.get::<_, String>(0)?, row.get_ref(1)?.as_str()? == text, row.get::<_, String>(2)?))
        });
        let problem = match found.optional()? {
            Some((known, false, _)) => format!("{what} refers to a different text in pair {known}"),
            Some((known, true, other)) if other != language => {
                format!(
                    "{what} refers to the same code in another language in pair {known} ({other:?}, here {language:?})"
                )
            }
            _ => continue,
        };
        return Ok(Some(format!("pair {}: {problem}", pair.id)));
    }
    Ok(None)
}

/// Renames a code whose id was derived from its text if the ledger has the same text in another language.
fn disambiguate(transaction: &Transaction<'_>, pair: &mut Pair) -> rusqlite::Result<()> {
    if pair.code_id != Pair::id_of(&[&pair.code]) {
        return Ok(());
    }
    let mut select =
        transaction.prepare_cached("SELECT language FROM pairs WHERE code_id = ?1 ORDER BY pair LIMIT 1")?;
    let known = select.query_row([&pair.code_id], |row| row.get::<_, String>(0)).optional()?;
    if known.is_some_and(|language| language != pair.language) {
        pair.code_id = Pair::id_of(&[&pair.language, &pair.code]);
    }
    Ok(())
}

impl Writer {
    /// Starts a list of pairs, which the following starts use.
    pub(crate) fn begin_list(&self) -> Result<(), JudgeError> {
        self.change(|transaction| {
            let last =
                "SELECT list FROM starts WHERE start IN (SELECT max(start) FROM starts GROUP BY judge)";
            transaction.execute(&format!("DELETE FROM listed WHERE list NOT IN ({last})"), [])?;
            Ok(())
        })
    }

    /// Adds pairs to the list. In a ledger, an id stands for one text and one label. Returns the conflicts of pairs
    /// that violate this, which are not added.
    pub(crate) fn add_pairs(&self, pairs: Vec<Pair>) -> Result<Vec<String>, JudgeError> {
        let list = self.list;
        self.change(move |transaction| {
            let mut insert = transaction.prepare_cached(
                "INSERT OR IGNORE INTO pairs (id, query_id, query, code_id, code, language, label, content, list) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?;
            let mut relabel = transaction
                .prepare_cached("UPDATE pairs SET label = ?2 WHERE id = ?1 AND ?2 IS NOT NULL AND label IS NOT ?2")?;
            let mut enlist = transaction.prepare_cached(
                "INSERT OR IGNORE INTO listed SELECT ?5, pair FROM pairs \
                 WHERE id = ?1 AND content = ?2 AND query_id = ?3 AND code_id = ?4",
            )?;
            let mut find = transaction.prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM pairs WHERE id = ?1 AND content = ?2 AND query_id = ?3 AND code_id = ?4)",
            )?;
            let mut clashes = Vec::new();
            for mut pair in pairs {
                disambiguate(transaction, &mut pair)?;
                if let Some(found) = conflict(transaction, &pair)? {
                    clashes.push(found);
                    continue;
                }
                let Pair { id, query_id, query, code_id, code, language, label, .. } = &pair;
                let content = pair.content();
                insert.execute(params![id, query_id, query, code_id, code, language, label, content, list])?;
                if !find.query_row(params![id, content, query_id, code_id], |row| row.get::<_, bool>(0))? {
                    clashes.push(format!("pair {id} already exists with a different text, language or ids"));
                    continue;
                }
                let is_new = enlist.execute(params![id, content, query_id, code_id, list])? > 0;
                let is_relabelled = relabel.execute(params![id, label])? > 0;
                if is_relabelled && !is_new {
                    clashes.push(format!("pair {id} occurs twice, with different labels"));
                }
            }
            Ok(clashes)
        })
    }
}
