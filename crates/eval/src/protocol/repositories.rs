//! Search over whole repositories: is the correct file or function among the first results?

use super::request::Request;
use super::{Outcome, Part, Protocol, Role, RoleKind};
use crate::evaluation::Evaluation;
use crate::repo_search::RepositoryScores;
use crate::spans::MEASURE;
use quarry_corpus::formats::repo_search as table;
use quarry_metrics::abstention::Confidence;

/// Questions about repositories at pinned revisions, whose answers are files and ranges of lines.
pub(super) static REPO_SEARCH: Protocol = Protocol {
    name: "repo-search",
    source: "semble, repository search",
    about: "Indexes each repository as `quarry search` does, and takes as the rank of each target that of the first \
            result in it; the result is the mean over repositories",
    roles: &[
        Role::required(TABLE, &["repo-search"], "questions with their repositories, revisions and targets"),
        Role {
            name: CHECKOUTS,
            kind: RoleKind::Checkouts,
            formats: &[],
            optional: false,
            about: "directory with a directory for each repository, named as in the table",
        },
    ],
    measures: &[MEASURE],
    options: &[],
    discrepancies: &[],
    strata: Some("repository"),
    published: None,
    run: |request: &Request<'_>| {
        let mut repositories = Vec::new();
        for path in request.files.get(TABLE).into_iter().flatten() {
            repositories.extend(table::read(path)?);
        }
        let scores = request.method.search(&repositories, &request.files[CHECKOUTS])?;
        let parts = scores.repositories.iter().map(part).collect();
        Ok(Outcome::new(request, scores.model, parts))
    },
};

const TABLE: &str = "table";
const CHECKOUTS: &str = "checkouts";

fn part(repository: &RepositoryScores) -> Part {
    let queries = repository.queries.iter().enumerate();
    let evaluation = Evaluation {
        measures: vec![MEASURE],
        // Questions may repeat: a number distinguishes them.
        queries: queries
            .map(|(number, score)| (format!("{number} {}", score.query), vec![score.ndcg]))
            .collect(),
        confidences: repository.queries.iter().map(|score| Confidence::new(&[score.confidence])).collect(),
    };
    Part::rankings(repository.name.clone(), 0, evaluation)
}
