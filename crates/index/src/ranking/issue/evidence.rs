//! Units and files of an index that match the names, frames, paths and messages of an issue.

use std::collections::HashMap;

use quarry_source::UnitKind;
use quarry_text::{folded, parts};
use quarry_walk::FileFlags;
use rayon::prelude::*;

use super::Issue;
use super::frame::Frame;
use super::literal::Message;
use super::name::{Name, Origin, names};
use super::position::{Position, file_name};
use crate::ranking::rules::{last_part, path_parts};
use crate::ranking::selection::{best, better_first};
use crate::{Error, Index};

/// Maximum number of definitions of a name that are evidence: a name with more says nothing.
const MAX_DEFINITIONS: usize = 200;

/// Number of units whose source is compared with a message.
pub(crate) const N_PRINTING: usize = 12;

/// Number of named units whose callees count.
const N_CALLERS: usize = 12;

/// Minimum weight of such a unit.
const MIN_WEIGHT: f32 = 0.3;

/// Maximum number of definitions of a called name.
const MAX_CALLED: usize = 8;

/// Maximum number of callees of one of these units.
const MAX_CALLEES: usize = 60;

/// Evidence of an issue for a unit; each value is 0 to 1, and 0 without such evidence.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct UnitEvidence {
    pub title_name: f32,
    pub title_word: f32,
    pub marked_name: f32,
    pub prose_name: f32,
    pub code_called: f32,
    pub code_name: f32,
    pub trace_name: f32,
    pub message_name: f32,
    pub scope: f32,
    pub title_owner: f32,
    pub prose_owner: f32,
    pub code_owner: f32,
    pub position: f32,
    pub frame: f32,
    pub innermost_frame: f32,
    pub message: f32,
    pub neighbor: f32,
    pub second_neighbor: f32,
}

impl UnitEvidence {
    /// Total evidence, for choosing candidates.
    pub fn sum(&self) -> f32 {
        let Self {
            title_name,
            title_word,
            marked_name,
            prose_name,
            code_called,
            code_name,
            trace_name,
            message_name,
            ..
        } = *self;
        let names = title_name
            + 0.5 * title_word
            + marked_name
            + 0.7 * prose_name
            + 0.7 * code_called
            + 0.5 * code_name;
        names
            + 0.4 * trace_name
            + 0.3 * message_name
            + 0.3 * (self.title_owner + self.prose_owner + self.code_owner)
            + 2.0 * (self.position + self.frame + self.message)
            + 0.3 * self.neighbor
            + 0.2 * self.second_neighbor
    }

    /// Share of the kinds of places in an issue that name it.
    pub fn origins(&self) -> f32 {
        let places = [
            self.title_name.max(self.title_word),
            self.prose_name.max(self.marked_name),
            self.code_called.max(self.code_name),
            self.trace_name.max(self.frame),
            self.message_name,
        ];
        places.iter().filter(|place| **place > 0.0).count() as f32 / places.len() as f32
    }

    /// Weight with which it is named, for choosing the units whose callees count.
    fn named(&self) -> f32 {
        self.title_name
            .max(self.marked_name)
            .max(0.8 * self.prose_name)
            .max(0.8 * self.code_called)
            .max(self.frame)
    }
}

/// Evidence of an issue for a file.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct FoundFile {
    pub path: f32,
    pub module: f32,
    pub frame: f32,
    pub names: f32,
}

/// Evidence of an issue for the units and files of an index.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    pub units: HashMap<usize, UnitEvidence>,
    pub files: HashMap<u32, FoundFile>,
}

impl Evidence {
    fn unit(&mut self, unit: usize) -> &mut UnitEvidence {
        self.units.entry(unit).or_default()
    }

    fn file(&mut self, file: u32) -> &mut FoundFile {
        self.files.entry(file).or_default()
    }
}

/// Files by their names and by their stems.
struct FileNames<'a> {
    by_name: HashMap<&'a str, Vec<u32>>,
    by_stem: HashMap<&'a str, Vec<u32>>,
}

fn raise(value: &mut f32, to: f32) {
    *value = value.max(to);
}

impl Index {
    /// The evidence of an issue for units and files; units that are not `allowed` are left out.
    pub(crate) fn issue_evidence(&self, issue: &Issue, allowed: Option<&[bool]>) -> Result<Evidence, Error> {
        let mut evidence = Evidence::default();
        let files = self.file_names();
        for (name, count) in &issue.names {
            self.find_name(&mut evidence, &files, name, *count)?;
        }
        self.find_frames(&mut evidence, &files, issue)?;
        for position in &issue.positions {
            self.find_position(&mut evidence, &files, position);
        }
        self.find_named_callees(&mut evidence)?;
        if let Some(allowed) = allowed {
            evidence.units.retain(|unit, _| allowed[*unit]);
        }
        let mut named: HashMap<u32, f32> = HashMap::new();
        for (unit, found) in &evidence.units {
            *named.entry(self.file_of_unit[*unit]).or_default() += found.named();
        }
        for (file, sum) in named {
            evidence.file(file).names = sum / (1.0 + sum);
        }
        Ok(evidence)
    }

    fn file_names(&self) -> FileNames<'_> {
        let mut by_name: HashMap<&str, Vec<u32>> = HashMap::new();
        let mut by_stem: HashMap<&str, Vec<u32>> = HashMap::new();
        for (row, file) in (0..).zip(self.table.files.iter()) {
            let path = self.table.text(file.path);
            by_name.entry(file_name(path)).or_default().push(row);
            by_stem.entry(path_parts(path).stem).or_default().push(row);
        }
        FileNames { by_name, by_stem }
    }

    fn find_name(
        &self,
        evidence: &mut Evidence,
        files: &FileNames,
        name: &Name,
        count: usize,
    ) -> Result<(), Error> {
        let scopes: Vec<&str> = name.scopes().take(6).collect();
        let Some((&own, outer)) = scopes.split_first() else { return Ok(()) };
        // A plain word is a name only if it is spelled like one; dunder names are everywhere.
        let is_plain = !name.is_symbol;
        if is_plain && own.len() < 3 || own.starts_with("__") && outer.is_empty() {
            return Ok(());
        }
        let (units, is_scoped) = self.named_units(own, outer)?;
        let n_named = units.len();
        if (1..=MAX_DEFINITIONS).contains(&n_named) {
            let repeated = 1.0 + 0.1 * (count.min(6) - 1) as f32;
            let weight = (repeated / (n_named as f32).sqrt()).min(1.0);
            for unit in units {
                self.found_name(evidence, name, unit, weight, is_scoped);
            }
        }
        if outer.is_empty() && is_plain {
            return Ok(());
        }
        // The scope may be a type whose attribute this is, or a module.
        for (number, scope) in outer.iter().enumerate().take(3) {
            if parts(scope).count() > 1 || scope.starts_with(char::is_uppercase) {
                let (types, _) = self.named_units(scope, &outer[number + 1..])?;
                if types.len() <= 4 {
                    for unit in
                        types.into_iter().filter(|unit| self.table.units[*unit].kind() == UnitKind::Type)
                    {
                        self.found_owner(evidence, name.origin, unit, 0.7);
                    }
                }
            }
        }
        for start in 0..scopes.len().min(3) {
            self.find_module(evidence, files, &scopes[start..]);
        }
        Ok(())
    }

    /// The units that define a name, and true if they are those within its scopes: these are preferred, as are units
    /// whose names are spelled the same.
    fn named_units(&self, own: &str, outer: &[&str]) -> Result<(Vec<usize>, bool), Error> {
        let mut units = self.lexical.definitions(&folded(own))?;
        let exact: Vec<usize> = units.iter().copied().filter(|&unit| self.unit_name(unit) == own).collect();
        if !exact.is_empty() {
            units = exact;
        } else if parts(own).count() < 2 {
            units.clear();
        }
        let Some(parent) = outer.first() else { return Ok((units, false)) };
        let is_inside = |unit: &usize| {
            let record = &self.table.units[*unit];
            let around = self.table.text(record.name).rsplit('.').nth(1);
            let stem = path_parts(self.table.text(self.table.file_of(record).path)).stem;
            around.is_some_and(|around| around == *parent) || stem == *parent
        };
        let inside: Vec<usize> = units.iter().copied().filter(is_inside).collect();
        Ok(if inside.is_empty() { (units, false) } else { (inside, true) })
    }

    fn unit_name(&self, unit: usize) -> &str {
        last_part(self.table.text(self.table.units[unit].name))
    }

    fn found_name(&self, evidence: &mut Evidence, name: &Name, unit: usize, weight: f32, is_scoped: bool) {
        let found = evidence.unit(unit);
        match name.origin {
            Origin::Title if name.is_symbol => raise(&mut found.title_name, weight),
            Origin::Title => raise(&mut found.title_word, weight),
            Origin::Prose => raise(&mut found.prose_name, weight),
            Origin::Code if name.is_called => raise(&mut found.code_called, weight),
            Origin::Code => raise(&mut found.code_name, weight),
            Origin::Trace => raise(&mut found.trace_name, weight),
            Origin::Message => raise(&mut found.message_name, weight),
        }
        if name.is_marked {
            raise(&mut found.marked_name, weight);
        }
        if is_scoped {
            raise(&mut found.scope, weight);
        }
        if self.table.units[unit].kind() == UnitKind::Type && name.is_symbol {
            self.found_owner(evidence, name.origin, unit, weight);
        }
    }

    /// Records for the members of a type that the type is mentioned.
    fn found_owner(&self, evidence: &mut Evidence, origin: Origin, unit: usize, weight: f32) {
        let record = &self.table.units[unit];
        let owner = self.table.text(record.name);
        for member in self.units_of_files[record.file as usize].clone() {
            let name = self.table.text(self.table.units[member].name);
            let is_member =
                name.strip_prefix(owner).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
            if is_member {
                let found = evidence.unit(member);
                let value = match origin {
                    Origin::Title => &mut found.title_owner,
                    Origin::Prose => &mut found.prose_owner,
                    _ => &mut found.code_owner,
                };
                raise(value, weight);
            }
        }
    }

    /// Notes the files that a dotted name may refer to, innermost part first.
    fn find_module(&self, evidence: &mut Evidence, files: &FileNames, scopes: &[&str]) {
        let Some((stem, outer)) = scopes.split_first() else { return };
        let Some(rows) =
            files.by_stem.get(stem).filter(|rows| !outer.is_empty() && rows.len() <= MAX_DEFINITIONS)
        else {
            return;
        };
        for &row in rows {
            let directory = path_parts(self.table.text(self.table.files[row as usize].path)).directory;
            let common = directory.rsplit('/').zip(outer).take_while(|(a, b)| a == *b).count();
            if common > 0 {
                raise(&mut evidence.file(row).module, (common as f32 / outer.len() as f32).min(1.0));
            }
        }
    }

    /// The files that a path may be, with the number of matching parts: those that most parts from the end agree with.
    fn files_at(&self, files: &FileNames, path: &[&str]) -> Vec<(u32, usize)> {
        let Some(rows) = path.first().and_then(|name| files.by_name.get(name)) else { return Vec::new() };
        let common = |row: &u32| {
            let own = self.table.text(self.table.files[*row as usize].path);
            own.rsplit('/').zip(path).take_while(|(a, b)| a == *b).count()
        };
        let matches: Vec<(u32, usize)> = rows.iter().map(|row| (*row, common(row))).collect();
        let best = matches.iter().map(|(_, common)| *common).max().unwrap_or_default();
        matches.into_iter().filter(|(_, common)| *common == best).take(8).collect()
    }

    fn find_position(&self, evidence: &mut Evidence, files: &FileNames, position: &Position) {
        let found = self.files_at(files, &position.parts().collect::<Vec<_>>());
        let is_whole = |row: u32, common: usize| {
            common > 1
                || position.parts().nth(1).is_none()
                || !self.table.text(self.table.files[row as usize].path).contains('/')
        };
        let n_found = found.len() as f32;
        for (row, common) in found {
            if !is_whole(row, common) {
                continue;
            }
            raise(&mut evidence.file(row).path, 1.0 / n_found);
            if let Some(unit) = position.line.and_then(|line| self.unit_of_line(row, line)) {
                raise(&mut evidence.unit(unit).position, 1.0 / n_found);
            }
        }
    }

    fn unit_of_line(&self, row: u32, line: u32) -> Option<usize> {
        self.units_of_files[row as usize].clone().rfind(|&unit| {
            let record = &self.table.units[unit];
            (record.start_line..=record.end_line).contains(&line)
        })
    }

    fn find_frames(&self, evidence: &mut Evidence, files: &FileNames, issue: &Issue) -> Result<(), Error> {
        let mut frames: Vec<&(Frame, usize)> = issue.frames.iter().collect();
        // By their distance from the failure, in all traces; the last trace of several is the one that reached the user.
        frames.sort_by_key(|(_, depth)| *depth);
        let mut seen: Vec<usize> = Vec::new();
        for (frame, _) in frames {
            let units = self.units_of_frame(evidence, files, frame)?;
            let n_units = units.len() as f32;
            for unit in units {
                let number = seen.iter().position(|known| *known == unit).unwrap_or_else(|| {
                    seen.push(unit);
                    seen.len() - 1
                });
                let found = evidence.unit(unit);
                raise(&mut found.frame, 1.0 / ((1.0 + 0.5 * number as f32) * n_units.sqrt()));
                if number == 0 {
                    raise(&mut found.innermost_frame, 1.0 / n_units);
                }
                let frame = evidence.units[&unit].frame;
                raise(&mut evidence.file(self.file_of_unit[unit]).frame, frame);
            }
        }
        Ok(())
    }

    /// The units that a frame may be in: by the file and the function's name, or by the line if the frame has no
    /// function.
    fn units_of_frame(
        &self,
        evidence: &mut Evidence,
        files: &FileNames,
        frame: &Frame,
    ) -> Result<Vec<usize>, Error> {
        let own = frame.own_name();
        let scopes: Vec<&str> = frame.scopes().collect();
        let Some(position) = frame.position else {
            let (units, is_scoped) = self.named_units(own, scopes.get(1..).unwrap_or_default())?;
            return Ok(if is_scoped && units.len() <= 4 { units } else { Vec::new() });
        };
        let is_alone = position.parts().nth(1).is_none();
        // Java prints the file alone; its directories are in the function's name.
        let packages = if is_alone { scopes.get(2..).unwrap_or_default() } else { &[] };
        let path: Vec<&str> = position.parts().chain(packages.iter().copied()).collect();
        let mut units = Vec::new();
        for (row, common) in self.files_at(files, &path) {
            let is_whole =
                common > 1 || is_alone || !self.table.text(self.table.files[row as usize].path).contains('/');
            let at_line = position.line.and_then(|line| self.unit_of_line(row, line));
            let named = self.units_of_files[row as usize]
                .clone()
                .filter(|&unit| !own.is_empty() && self.unit_name(unit) == own);
            let line = position.line.unwrap_or_default();
            let parent = scopes.get(1).copied().unwrap_or_default();
            let distance = |unit: &usize| {
                let record = &self.table.units[*unit];
                let is_other =
                    self.table.text(record.name).rsplit('.').nth(1).is_none_or(|around| around != parent);
                (
                    is_other && !parent.is_empty(),
                    record.start_line.saturating_sub(line).max(line.saturating_sub(record.end_line)),
                )
            };
            let unit = named.min_by_key(distance).or(if own.is_empty() && is_whole { at_line } else { None });
            match unit {
                Some(unit) => units.push(unit),
                // The function is gone, but the file exists.
                None if is_whole && !own.is_empty() => {
                    raise(&mut evidence.file(row).frame, 0.2);
                    if let Some(unit) = at_line {
                        raise(&mut evidence.unit(unit).position, 0.3);
                    }
                }
                None => {}
            }
        }
        Ok(units)
    }

    /// Notes the callees of the functions that are named most, and their callees in turn.
    fn find_named_callees(&self, evidence: &mut Evidence) -> Result<(), Error> {
        let near = self.callees_of(evidence, UnitEvidence::named)?;
        for (unit, share) in near {
            raise(&mut evidence.unit(unit).neighbor, share);
        }
        let far = self.callees_of(evidence, |found| found.neighbor)?;
        for (unit, share) in far {
            raise(&mut evidence.unit(unit).second_neighbor, share);
        }
        Ok(())
    }

    /// The callees of the functions with the largest weights, each with its share of the weight.
    fn callees_of(
        &self,
        evidence: &Evidence,
        weight: impl Fn(&UnitEvidence) -> f32,
    ) -> Result<Vec<(usize, f32)>, Error> {
        let is_function = |unit: usize| {
            let record = &self.table.units[unit];
            matches!(record.kind(), UnitKind::Function | UnitKind::Method)
                && !self.flags(record).contains(FileFlags::TEST)
        };
        let weighted = evidence.units.iter().map(|(unit, found)| (*unit, weight(found)));
        let mut callers: Vec<(usize, f32)> =
            weighted.filter(|(unit, weight)| *weight > MIN_WEIGHT && is_function(*unit)).collect();
        callers.sort_unstable_by(better_first);
        callers.truncate(N_CALLERS);
        let of_caller = |&(caller, weight): &(usize, f32)| -> Result<Vec<(usize, f32)>, Error> {
            let source = self.unit_text(caller).unwrap_or_default();
            let mut seen: Vec<&str> = Vec::new();
            let mut callees = Vec::new();
            for name in names(&source, Origin::Code).filter(|name| name.is_called) {
                let Some(own) = name.scopes().next().filter(|own| own.len() > 2 && !seen.contains(own))
                else {
                    continue;
                };
                seen.push(own);
                if seen.len() > MAX_CALLEES {
                    break;
                }
                let is_type = |scope: &&str| !["self", "this", "cls", "super"].contains(scope);
                let outer: Vec<&str> = name.scopes().skip(1).filter(is_type).take(1).collect();
                let (units, _) = self.named_units(own, &outer)?;
                if units.len() <= MAX_CALLED {
                    let share = weight / (units.len() as f32).sqrt();
                    callees
                        .extend(units.into_iter().filter(|unit| *unit != caller).map(|unit| (unit, share)));
                }
            }
            Ok(callees)
        };
        let found = callers.par_iter().map(of_caller).collect::<Result<Vec<_>, Error>>()?;
        Ok(found.into_iter().flatten().collect())
    }

    /// The source of a unit as it is now; `None` if it cannot be read.
    pub(crate) fn unit_text(&self, unit: usize) -> Option<String> {
        Some(self.source(&self.unit(unit)).ok()?.text)
    }

    /// The share of a message that a unit prints, for those of the units with most of its words that print more than
    /// half of it.
    pub(crate) fn printing(&self, message: &Message, matched: &[f32], n: usize) -> Vec<(usize, f32)> {
        let units = best(matched.len(), n, |unit| matched[unit]);
        let printed = |&(unit, _): &(usize, f32)| {
            let share = message.printed_by(&self.unit_text(unit)?);
            (share > 0.5).then_some((unit, share))
        };
        units.par_iter().filter_map(printed).collect()
    }
}
