//! Documentation belongs to what follows it, also below blank lines, and with attributes or decorators between.

use quarry_source::{Unit, extract, language_for};

/// The name of a file, its text, the line from 1 on where the unit `documented` begins, and a word of its doc.
const DOCUMENTED: &[(&str, &str)] = &[
    ("a.c", "int x;\n\n/** Marker text. */\n\nint documented(int a) {\n    return a;\n}\n"),
    ("a.c", "int x;\n\n/*!\n * Marker text.\n */\n\nstatic int documented(int a) {\n    return a;\n}\n"),
    ("a.cpp", "int x;\n\n/// Marker text.\n\n[[nodiscard]] int documented(int a) {\n    return a;\n}\n"),
    (
        "a.cs",
        "class A {\n    int x;\n\n    /// <summary>Marker text.</summary>\n\n    [Obsolete]\n    int Documented() {\n        return 1;\n    }\n}\n",
    ),
    ("a.dart", "int x = 1;\n\n/// Marker text.\n\n@override\nint documented() {\n  return 1;\n}\n"),
    ("a.ex", "defmodule A do\n  @doc \"Marker text.\"\n\n  def documented(a) do\n    a + 1\n  end\nend\n"),
    ("a.groovy", "int x = 1\n\n/** Marker text. */\n\n@Deprecated\nint documented() {\n    return 1\n}\n"),
    (
        "a.java",
        "class A {\n    int x;\n\n    /** Marker text. */\n\n    @Override\n    int documented() {\n        return 1;\n    }\n}\n",
    ),
    ("a.js", "const x = 1;\n\n/** Marker text. */\n\nexport function documented() {\n  return 1;\n}\n"),
    (
        "a.kt",
        "val x = 1\n\n/** Marker text. */\n\n@Deprecated(\"old\")\nfun documented(): Int {\n  return 1\n}\n",
    ),
    ("a.lua", "local x = 1\n\n--- Marker text.\n\nfunction documented()\n  return 1\nend\n"),
    (
        "a.php",
        "<?php\n$x = 1;\n\n/** Marker text. */\n\n#[Pure]\nfunction documented() {\n    return 1;\n}\n",
    ),
    ("a.rs", "const X: u8 = 1;\n\n/// Marker text.\n\n#[inline]\nfn documented() -> u8 {\n    1\n}\n"),
    (
        "a.scala",
        "object A {\n  val x = 1\n\n  /** Marker text. */\n\n  @tailrec\n  def documented(a: Int): Int = {\n    a\n  }\n}\n",
    ),
    ("a.swift", "let x = 1\n\n/// Marker text.\n\n@inlinable\nfunc documented() -> Int {\n    return 1\n}\n"),
    (
        "a.ts",
        "class A {\n  x = 1;\n\n  /** Marker text. */\n\n  @logged()\n  documented(): number {\n    return 1;\n  }\n}\n",
    ),
    (
        "a.sol",
        "contract A {\n    /// Marker text.\n\n    function documented() public {\n        x = 1;\n    }\n}\n",
    ),
    ("a.zig", "const x = 1;\n\n/// Marker text.\n\nfn documented() u8 {\n    return 1;\n}\n"),
    ("a.R", "x <- 1\n\n#' Marker text.\n\ndocumented <- function(a) {\n  a\n}\n"),
    ("a.ml", "let x = 1\n\n(** Marker text. *)\n\nlet documented a =\n  a + 1\n"),
    ("a.hs", "x = 1\n\n-- | Marker text.\n\ndocumented :: Int -> Int\ndocumented a = a\n"),
    ("a.ps1", "$x = 1\n\n<#\n.SYNOPSIS\nMarker text.\n#>\n\nfunction documented {\n    return 1\n}\n"),
    ("a.proto", "syntax = \"proto3\";\n\n/** Marker text. */\n\nmessage documented {\n  string x = 1;\n}\n"),
    ("a.m", "int x;\n\n/** Marker text. */\n\nint documented(int a) {\n    return a;\n}\n"),
    (
        "a.f90",
        "module a\ncontains\n!> Marker text.\n\nsubroutine documented(a)\n  a = 1\nend subroutine\nend module\n",
    ),
    ("a.erl", "-module(a).\n\n%% @doc Marker text.\n\ndocumented(A) ->\n    A.\n"),
    ("a.nix", "{\n  x = 1;\n\n  /** Marker text. */\n\n  documented = a: a;\n}\n"),
];

#[test]
fn documentation_above_a_blank_line_is_of_the_next_definition() {
    let mut wrong = Vec::new();
    for (name, text) in DOCUMENTED {
        let language = language_for(name.as_ref(), text.as_bytes()).unwrap();
        if language.lacks_grammar() {
            continue;
        }
        let units = extract(language, text.as_bytes()).units;
        let is_named = |unit: &&Unit| unit.name.to_lowercase().ends_with("documented");
        let above = text
            .lines()
            .position(|line| ["Marker", "/*!", "<#"].iter().any(|mark| line.contains(mark)))
            .unwrap();
        let found: Vec<(String, u32)> =
            units.iter().filter(is_named).map(|unit| (unit.doc.clone(), unit.start_line)).collect();
        let is_right = matches!(&found[..], [(doc, line)] if doc.contains("Marker text.") && *line as usize == above + 1);
        if !is_right {
            wrong.push((name, text, found));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn other_comments_above_a_blank_line_are_not() {
    for (name, text) in [
        ("a.rs", "// Marker text.\n\nfn plain() -> u8 {\n    1\n}\n"),
        ("a.rs", "//////// Marker text.\n\nfn plain() -> u8 {\n    1\n}\n"),
        ("a.rs", "/// Marker text.\n\n\n\n\nfn plain() -> u8 {\n    1\n}\n"),
        ("a.go", "package a\n\n// Marker text.\n\nfunc plain() int {\n\treturn 1\n}\n"),
        ("a.py", "# Marker text.\n\ndef plain():\n    return 1\n"),
        ("a.java", "class A {\n    /* Marker text. */\n\n    int plain() {\n        return 1;\n    }\n}\n"),
        (
            "a.java",
            "class A {\n    /**/\n    // Marker text.\n\n    int plain() {\n        return 1;\n    }\n}\n",
        ),
        ("a.c", "enum a { B, ///< Marker text.\n\n};\nint plain(void) {\n    return 1;\n}\n"),
        ("a.js", "/** Marker text. Copyright 2026, license MIT */\n\nfunction plain() {\n  return 1;\n}\n"),
        (
            "a.ex",
            "defmodule A do\n  @moduledoc \"Marker text.\"\n\n  def plain(a) do\n    a + 1\n  end\nend\n",
        ),
    ] {
        let language = language_for(name.as_ref(), text.as_bytes()).unwrap();
        let units = extract(language, text.as_bytes()).units;
        let unit = units.iter().find(|unit| unit.name.ends_with("plain")).unwrap();
        assert!(!unit.doc.contains("Marker"), "{name}: {unit:?}");
    }
}
