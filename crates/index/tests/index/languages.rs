//! Queries in other languages than English.

use quarry_index::SearchResponse;

use super::{CONNECT, Fixture, PARSE};
use crate::answer;

const DELETE: &str =
    "def purge(path):\n    \"\"\"Delete a file, and remove its name.\"\"\"\n    os.unlink(path)\n";

#[test]
fn a_query_in_another_language_is_read_in_english() {
    let index = Fixture::new(&[("purge.py", DELETE), ("net.py", CONNECT), ("header.py", PARSE)]).open().index;
    for query in [
        "die Datei löschen",
        "eliminar el archivo",
        "supprimer le fichier",
        "eliminare un file esistente",
        "excluir o arquivo",
        "verwijder het bestand",
        "usuń plik",
        "Удалить файл",
        "删除文件",
        "ファイルを削除する",
    ] {
        let SearchResponse { hits, read_as, .. } = answer(&index, query).unwrap();
        let read_as = read_as.unwrap_or_default();
        assert!(read_as.contains("delete") && read_as.contains("file"), "{query}: {read_as}");
        assert_eq!(hits[0].path, "purge.py", "{query}");
    }
}

#[test]
fn english_and_names_are_not_translated() {
    let index = Fixture::new(&[("purge.py", DELETE), ("net.py", CONNECT), ("header.py", PARSE)]).open().index;
    for query in [
        "delete a file",
        "delet the filez",
        "Datei",
        "parse_datei_zeile",
        "header datei",
        "no such word",
        "?!x",
    ] {
        assert_eq!(answer(&index, query).unwrap().read_as, None, "{query}");
    }
}

#[test]
fn words_of_the_tree_are_not_foreign_to_it() {
    let german = "def loesche(pfad):\n    \"\"\"Die Datei löschen.\"\"\"\n    os.unlink(pfad)\n";
    let index = Fixture::new(&[("a.py", german), ("purge.py", DELETE)]).open().index;
    let SearchResponse { hits, read_as, .. } = answer(&index, "Datei löschen").unwrap();
    assert_eq!((hits[0].path.as_str(), read_as), ("a.py", None));
    // Some words are the tree's, others are not: both are searched for.
    let SearchResponse { read_as, .. } = answer(&index, "alte Datei öffnen").unwrap();
    let read_as = read_as.unwrap();
    assert!(["Datei", "file", "open"].iter().all(|word| read_as.contains(word)), "{read_as}");
}
