//! The pages of labeling.

use maud::{Markup, html};
use quarry_judge::RunResult;
use quarry_judge::ledger::{Item, ItemAnswer, Subject};
use quarry_people::{Dispute, FormOverview, Guideline, Stage, TestDraft, TestState, shown_columns};
use quarry_text::counted;

use super::{Labels, MAX_COMMENT_CHARS};
use crate::highlight::ColoredLines;
use crate::pages::layout::{self, Site};

/// Rows of the field for a test program.
const PROGRAM_ROWS: usize = 18;

fn page(title: &str, body: Markup) -> Markup {
    layout::page_of(Site::Labels, title, body)
}

/// Page of an unused invitation.
pub(super) fn invitation(person: Option<&str>) -> Markup {
    page(
        "Labeling",
        html! {
            main #main .login {
                h1 { "Labeling" }
                p {
                    @match person {
                        Some(person) => { "You are " b { (person) } "." },
                        None => "You are the organizer.",
                    }
                    " This link works once: continue in the browser that you will use."
                }
                form method="post" { button type="submit" autofocus { "Begin" } }
            }
        },
    )
}

/// Page for an annotator with nothing left.
pub(super) fn done(can_change: bool) -> Markup {
    page(
        "Labeling",
        html! {
            main #main .login {
                h1 { "Nothing left to do" }
                p { "Thank you. All your answers are saved." }
                @if can_change { p { a href="/last" data-key="u" { kbd { "u" } " change the last answer" } } }
            }
        },
    )
}

/// An item with the buttons that answer it.
pub(super) struct ItemPage<'a> {
    pub labels: &'a Labels,
    pub person: &'a str,
    pub item: &'a Item,
    pub stage: Stage,
    /// The person's former answer, if it is to be changed.
    pub before: Option<ItemAnswer>,
}

impl ItemPage<'_> {
    fn draft(&self) -> Option<TestDraft> {
        self.labels.session.test(self.person, self.item.number)
    }

    /// Returns whether a program of the person is running.
    pub(super) fn is_running(&self) -> bool {
        self.asks_for_program() && self.draft().is_some_and(|draft| matches!(draft.state, TestState::Running))
    }

    fn asks_for_program(&self) -> bool {
        self.labels.session.form().tests && self.stage == Stage::Final
    }

    pub(super) fn page(&self) -> Markup {
        let guideline = &self.labels.session.form().guideline;
        let all = self.labels.session.form().items.len();
        page(
            "Labeling",
            html! {
                header {
                    span .name { "Quarry" }
                    span .quiet { "Item " (self.item.number) " of " (all) ", as " (self.person) }
                }
                div .columns {
                    main #main tabindex="-1" { (subject(&self.item.subject)) (self.form()) }
                    (guide(guideline))
                }
            },
        )
    }

    fn form(&self) -> Markup {
        let draft = self.draft().filter(|_| self.asks_for_program());
        let comment = (draft.as_ref().map(|draft| draft.comment.as_str()))
            .or(self.before.as_ref().map(|before| before.comment.as_str()));
        html! {
            form .answer .wide[self.asks_for_program()] method="post" action="/" {
                // Enter in the field for comments answers nothing: it presses the first button, which does nothing.
                button type="submit" disabled hidden {}
                input type="hidden" name="item" value=(self.item.number);
                input type="hidden" name="stage" value=(self.stage.name());
                input type="hidden" name="code" value=(self.labels.form_code(self.person, self.item.number, self.stage));
                @if let Some(before) = &self.before {
                    input type="hidden" name="change" value="true";
                    p role="status" {
                        "You answered " b { (before.label) } ". Choose again to change it, or \
                         " a href="/" { "continue" } "."
                    }
                }
                @if self.asks_for_program() { (self.program(draft.as_ref())) }
                @if self.is_running() {
                    p role="status" { "The program is running …" }
                } @else {
                    label for="comment" { "Comment (optional)" }
                    input #comment name="comment" maxlength=(MAX_COMMENT_CHARS) autocomplete="off" value=[comment];
                    @if self.labels.session.form().tests { (self.question()) }
                    (self.buttons())
                }
            }
        }
    }

    fn question(&self) -> Markup {
        html! {
            h2 {
                @match self.stage {
                    Stage::Untested => "First, from reading alone:",
                    Stage::Final => "After testing:",
                }
            }
        }
    }

    fn buttons(&self) -> Markup {
        let can_change = self.before.is_none() && self.labels.session.last(self.person).is_some();
        html! {
            (labels(&self.labels.session.form().guideline))
            @if self.before.is_none() {
                div .buttons {
                    button type="submit" name="skip" value="true" data-key="s" {
                        kbd { "s" } " skip " span .quiet { "see it again at the end; nothing is saved" }
                    }
                    @if can_change {
                        a .button href="/last" data-key="u" { kbd { "u" } " undo " span .quiet { "change the last answer" } }
                    }
                }
            }
        }
    }

    /// The field for a test program, and what the last one came to.
    fn program(&self, draft: Option<&TestDraft>) -> Markup {
        let Subject::Pair(pair) = &self.item.subject else { return Markup::default() };
        let source = (draft.map(|draft| draft.source.as_str()))
            .or(self.before.as_ref().and_then(|before| before.program.as_deref()))
            .unwrap_or(&pair.code);
        let first = self.labels.session.answer_of(self.person, self.item.number, Stage::Untested);
        html! {
            @if let Some(first) = first { p { "Before testing you answered " b { (first.label) } "." } }
            label for="program" { "Test program: the given function, followed by assertions about what the query asks \
                       for" }
            textarea #program .code name="program" rows=(PROGRAM_ROWS) spellcheck="false" autocapitalize="off"
                readonly[self.is_running()] { "\n" (source) }
            @if !self.is_running() {
                div .buttons {
                    button type="submit" formaction="/test" data-key="r" data-run {
                        kbd { "r" } " run " span .quiet { "in a sandbox, without network and files" }
                    }
                }
            }
            @match draft.map(|draft| &draft.state) {
                Some(TestState::Ran(run, result)) => section .run aria-label="Result of the program" {
                    p role="status" {
                        b { (outcome(*result)) }
                        @if let Some(found) = run.assertions.filter(|found| found.is_cut) {
                            " (only the first " (found.ran) " assertions are counted)"
                        }
                        span .quiet {
                            " after " (format!("{:.2} s", run.wall_time.as_secs_f64())) ", "
                            (format!("{:.0} MB", run.peak_memory_bytes as f64 / 1e6))
                        }
                    }
                    @for (name, text) in [("Output", &run.stdout), ("Errors", &run.stderr)] {
                        @if !text.trim().is_empty() {
                            h2 { (name) }
                            pre .code tabindex="0" role="region" aria-label=(name) { (text) }
                        }
                    }
                },
                Some(TestState::Refused(problem)) => p role="alert" { (problem) },
                Some(TestState::Running) => {},
                None => p .quiet { "If there cannot be one, leave this unchanged and explain why in the comment." },
            }
        }
    }
}

fn outcome(result: RunResult) -> &'static str {
    match result {
        RunResult::Passed => "Every assertion held",
        RunResult::Failed => "An assertion did not hold",
        RunResult::Swallowed => "An assertion did not hold, and the program went on",
        RunResult::NoAssertions => "No assertion was evaluated",
        RunResult::MissingPackage => "A package is missing",
        RunResult::PackagesUnavailable => "Packages that it needs are not available",
        RunResult::Error => "It ended with an error",
        RunResult::TimedOut => "It ran for too long",
        RunResult::OutOfMemory => "It needed too much memory",
    }
}

fn subject(subject: &Subject) -> Markup {
    let language = match subject {
        Subject::Pair(pair) => pair.language.as_str(),
        Subject::Generated(generated) => generated.language.as_str(),
        Subject::Answers(_) => "",
    };
    html! {
        @for (column, text) in shown_columns(subject) {
            @match column {
                "query" => h1 .query { (text) },
                "language" => p .quiet { (text) },
                _ => {
                    @if matches!(column, "a" | "b") { h2 { (column.to_uppercase()) } }
                    (code(language, &text))
                }
            }
        }
    }
}

/// A button for each label, which a digit presses.
fn labels(guideline: &Guideline) -> Markup {
    html! {
        div .buttons {
            @for (position, value) in guideline.values().iter().enumerate() {
                @let key = (position < 9).then_some(position + 1);
                button type="submit" name="label" value=(value.name()) data-key=[key] title=(value.means) {
                    @if let Some(key) = key { kbd { (key) } " " }
                    b { (value.name()) } " " span .quiet { (value.means) }
                }
            }
        }
    }
}

fn guide(guideline: &Guideline) -> Markup {
    let (about, text) = guideline.question();
    html! {
        aside .guideline aria-label="Guideline" {
            h2 { (about) }
            @for paragraph in text.split("\n\n") {
                @if paragraph.lines().all(|line| line.starts_with("- ")) {
                    ul { @for line in paragraph.lines() { li { (line.trim_start_matches("- ")) } } }
                } @else {
                    p { (paragraph) }
                }
            }
            dl { @for value in guideline.values() { dt { (value.name()) } dd { (value.means) } } }
        }
    }
}

fn code(language: &str, text: &str) -> Markup {
    let colored = ColoredLines::new(language, text);
    html! {
        div .code tabindex="0" role="region" aria-label="Code" {
            @for (index, line) in text.lines().enumerate() {
                div .line { span .number data-line=(index + 1) {} span .text { (colored.line(index, line, &[], &[])) } }
            }
        }
    }
}

fn organizer_header() -> Markup {
    html! {
        header {
            span .name { "Quarry" }
            nav aria-label="Pages" {
                a href="/progress" { "Progress" } " · " a href="/disagreements" { "Disagreements" } " · "
                a href="/status" { "Judge" } " · " a href="/labels.jsonl" download { "All labels" }
            }
        }
    }
}

/// A page of the organizer, whose content the stream at `stream` changes.
pub(super) fn organizers(title: &str, stream: &str, content: &str) -> Markup {
    layout::page_of(
        Site::Status,
        title,
        html! {
            (organizer_header())
            main #main .narrow {
                h1 { (title) }
                (crate::live::content(stream, content))
            }
        },
    )
}

pub(super) fn overview(overview: &FormOverview) -> Markup {
    let minutes =
        |minutes: Option<f64>| minutes.map_or("–".to_owned(), |minutes| format!("{minutes:.1} min"));
    html! {
        h2 { (overview.finished) " of " (overview.items) " items are finished" }
        progress max=(overview.items) value=(overview.finished) aria-label="Finished items" {}
        p {
            @match overview.disputed {
                0 => "Nothing to adjudicate.",
                n => { a href="/disagreements" { (counted(n, "item")) } " to adjudicate: people disagree." },
            }
        }
        h2 { "People" }
        div .scroll tabindex="0" role="region" aria-label="People" {
            table {
                thead {
                    tr {
                        th scope="col" { "Annotator" } th scope="col" { "Answered" } th scope="col" { "Skipped" }
                        th scope="col" { "Median time" } th scope="col" { "Total time" }
                    }
                }
                tbody {
                    @for of in &overview.people {
                        tr {
                            th scope="row" { (of.person) } td { (of.answered) } td { (of.skipped) }
                            td { (minutes(of.median_minutes)) } td { (minutes(Some(of.total_minutes))) }
                        }
                    }
                }
            }
        }
        @if !overview.agreement.is_empty() {
            h2 { "Agreement" }
            div .scroll tabindex="0" role="region" aria-label="Agreement" {
                table {
                    thead { tr { th scope="col" { "On" } th scope="col" { "Items" } th scope="col" { "Krippendorff’s α" } } }
                    tbody {
                        @for of in &overview.agreement {
                            tr {
                                th scope="row" { (of.name) @if of.is_untested { ", before testing" } }
                                td { (of.items) }
                                td { (of.alpha.map_or("–".to_owned(), |alpha| format!("{alpha:.3}"))) }
                            }
                        }
                    }
                }
            }
        }
        p .quiet { "The tables of the papers: " code { "quarry judge study" } "." }
    }
}

/// Disagreements, with the buttons that decide them.
pub(super) fn disagreements(labeling: &Labels, disputes: &[Dispute<'_>]) -> Markup {
    let guideline = &labeling.session.form().guideline;
    let open = disputes.iter().filter(|dispute| dispute.adjudicated.is_none()).count();
    let shown = disputes.first();
    page(
        "Disagreements",
        html! {
            (organizer_header())
            div .columns {
                main #main tabindex="-1" {
                    p role="status" {
                        (counted(open, "item")) " to adjudicate, " (disputes.len() - open) " adjudicated"
                    }
                    @match shown {
                        None => h1 { "Nobody disagrees" },
                        Some(Dispute { item, replies, adjudicated }) => {
                            (subject(&item.subject))
                            h2 { "Answers" }
                            ul .sites {
                                @for reply in replies {
                                    li {
                                        b { (reply.person) } ": " b { (reply.answer.label) }
                                        @if let Some(result) = &reply.result {
                                            span .quiet { ", test program: " (result.replace('_', " ")) }
                                        }
                                        @if !reply.answer.comment.is_empty() { " – " (reply.answer.comment) }
                                        @if let Some(program) = &reply.answer.program {
                                            details { summary { "Test program" } pre .code { (program) } }
                                        }
                                    }
                                }
                            }
                            form .answer method="post" action="/disagreements" {
                                button type="submit" disabled hidden {}
                                input type="hidden" name="item" value=(item.number);
                                input type="hidden" name="code" value=(labeling.form_code("", item.number, Stage::Final));
                                @if let Some(decided) = adjudicated {
                                    p role="status" { "Adjudicated: " b { (decided.label) } ". Choose again to change it." }
                                }
                                label for="comment" { "Why" }
                                input #comment name="comment" maxlength=(MAX_COMMENT_CHARS) autocomplete="off"
                                    value=[adjudicated.as_ref().map(|decided| decided.comment.as_str())];
                                (labels(guideline))
                            }
                        }
                    }
                }
                (guide(guideline))
            }
        },
    )
}
