//! Charts as SVG, colored by the style sheet of the surrounding page.

use maud::{Markup, html};
use quarry_text::counted;

#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    pub label: String,
    /// Length of the bar, 0 to 1.
    pub value: f64,
    pub interval: Option<(f64, f64)>,
}

/// Named points; those of at least 5 cases are joined by a line.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    pub label: String,
    /// Points from left to right: position, height from 0 to 1, and number of cases.
    pub points: Vec<(f64, f64, usize)>,
}

/// Named points of any heights from 0, joined by a line.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    pub label: String,
    /// Position and height of each point, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// Lines with at least this many points are drawn without marks.
const CROWDED: usize = 40;

/// Minimum number of cases of a point for a curve to go through it: a mean of fewer cases is mostly chance.
const JOINED: usize = 5;

const COLORS: usize = 8;

fn color(index: usize) -> String {
    format!("c{}", index % COLORS)
}

/// Horizontal bars from 0 to 1, in the order given.
pub fn bars(title: &str, bars: &[Bar]) -> Markup {
    let longest = bars.iter().map(|bar| bar.label.chars().count()).max().unwrap_or(0).min(40);
    let (left, width, row) = (longest as f64 * 7.2 + 14.0, 420.0, 26.0);
    let height = bars.len() as f64 * row + 30.0;
    let x = |value: f64| left + value.clamp(0.0, 1.0) * width;
    html! {
        svg role="img" viewBox=(format!("0 0 {:.0} {:.0}", left + width + 60.0, height)) width=(left + width + 60.0) {
            title { (title) }
            @for tick in 0..=5 {
                @let (position, value) = (x(f64::from(tick) / 5.0), f64::from(tick) / 5.0);
                line.grid x1=(fixed(position)) x2=(fixed(position)) y1="4" y2=(fixed(height - 22.0)) {}
                text.axis x=(fixed(position)) y=(fixed(height - 6.0)) text-anchor="middle" { (format!("{value:.1}")) }
            }
            @for (index, bar) in bars.iter().enumerate() {
                @let top = index as f64 * row + 8.0;
                g {
                    title { (bar.label) ": " (format!("{:.4}", bar.value))
                        @if let Some((low, high)) = bar.interval { (format!(" [{low:.4}, {high:.4}]")) } }
                    text.label x=(fixed(left - 8.0)) y=(fixed(top + 13.0)) text-anchor="end" { (shortened(&bar.label, 40)) }
                    rect class=(color(index)) x=(fixed(left)) y=(fixed(top)) width=(fixed(x(bar.value) - left)) height="18" rx="2" {}
                    @if let Some((low, high)) = bar.interval {
                        @let middle = fixed(top + 9.0);
                        line.whisker x1=(fixed(x(low))) x2=(fixed(x(high))) y1=(middle) y2=(middle) {}
                        @for end in [low, high] {
                            line.whisker x1=(fixed(x(end))) x2=(fixed(x(end))) y1=(fixed(top + 5.0)) y2=(fixed(top + 13.0)) {}
                        }
                    }
                    @let end = x(bar.interval.map_or(bar.value, |(_, high)| high.max(bar.value)));
                    text.value x=(fixed(end + 6.0)) y=(fixed(top + 13.0)) { (format!("{:.3}", bar.value)) }
                }
            }
        }
    }
}

/// Horizontal bars of numbers, scaled to the largest, in the order given; long names are truncated.
pub fn counts(title: &str, counts: &[(String, u64)]) -> Markup {
    const LONGEST: usize = 32;
    let longest = counts.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0).min(LONGEST);
    let most = counts.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1) as f64;
    let (left, width, row) = (longest as f64 * 7.2 + 14.0, 360.0, 26.0);
    let (right, height) = (left + width + 80.0, counts.len() as f64 * row + 8.0);
    html! {
        svg role="img" viewBox=(format!("0 0 {right:.0} {height:.0}")) width=(format!("{right:.0}")) {
            title { (title) }
            line.grid x1=(fixed(left)) x2=(fixed(left)) y1="2" y2=(fixed(height - 2.0)) {}
            @for (index, (label, count)) in counts.iter().enumerate() {
                @let (top, length) = (index as f64 * row + 4.0, *count as f64 / most * width);
                g {
                    title { (label) ": " (count) }
                    text.label x=(fixed(left - 8.0)) y=(fixed(top + 13.0)) text-anchor="end" { (beginning(label, LONGEST)) }
                    rect.c0 x=(fixed(left)) y=(fixed(top)) width=(fixed(length)) height="18" rx="2" {}
                    text.value x=(fixed(left + length + 6.0)) y=(fixed(top + 13.0)) { (count) }
                }
            }
        }
    }
}

/// A scatter plot of pairs of values from 0 to 1; the size of a point shows the number of equal pairs.
pub fn scatter(x_label: &str, y_label: &str, values: &[(f64, f64)]) -> Markup {
    const STEPS: f64 = 50.0;
    let mut counts = std::collections::BTreeMap::<(i64, i64), usize>::new();
    for (x, y) in values {
        *counts.entry(((x * STEPS).round() as i64, (y * STEPS).round() as i64)).or_default() += 1;
    }
    let frame = Frame::unit(x_label, y_label);
    frame.open(&format!("{y_label} against {x_label}, query by query"), html! {
            line.diagonal x1=(fixed(frame.x(0.0))) y1=(fixed(frame.y(0.0))) x2=(fixed(frame.x(1.0))) y2=(fixed(frame.y(1.0))) {}
            @for ((x, y), count) in &counts {
                @let (x, y) = (*x as f64 / STEPS, *y as f64 / STEPS);
                @let side = if y > x { "above" } else if y < x { "below" } else { "even" };
                circle class=(side) cx=(fixed(frame.x(x))) cy=(fixed(frame.y(y))) r=(fixed((1.8 + (*count as f64).sqrt()).min(14.0))) {
                    title { (format!("{}: {x_label} {x:.2}, {y_label} {y:.2}", counted(*count, "query"))) }
                }
            }
        })
}

/// Lines over a common horizontal axis of integers.
pub fn curves(title: &str, x_label: &str, y_label: &str, series: &[Series]) -> Markup {
    html! {
        (curves_svg(title, x_label, y_label, series))
        (legend(series.iter().map(|series| series.label.as_str())))
    }
}

fn curves_svg(title: &str, x_label: &str, y_label: &str, series: &[Series]) -> Markup {
    let positions = || series.iter().flat_map(|series| series.points.iter().map(|(x, _, _)| *x));
    let frame = Frame {
        x_label,
        y_label,
        from: positions().fold(f64::INFINITY, f64::min),
        to: positions().fold(f64::NEG_INFINITY, f64::max),
        whole: true,
        top: 1.0,
    };
    frame.open(title, html! {
            @for (index, series) in series.iter().enumerate() {
                @let joined = series.points.iter().filter(|(_, _, count)| *count >= JOINED);
                @let path: Vec<String> = joined.map(|(x, y, _)| format!("{},{}", fixed(frame.x(*x)), fixed(frame.y(*y)))).collect();
                polyline class=(color(index)) points=(path.join(" ")) {}
                @for (x, y, count) in &series.points {
                    circle class=(color(index)) cx=(fixed(frame.x(*x))) cy=(fixed(frame.y(*y))) r="3.5" {
                        title { (format!("{}: {x:.0} → {y:.3} over {}", series.label, counted(*count, "query"))) }
                    }
                }
            }
        })
}

/// Lines over a common horizontal axis of integers, with heights from 0 to a round number above the maximum.
pub fn lines(title: &str, x_label: &str, y_label: &str, lines: &[Line]) -> Markup {
    let points = || lines.iter().flat_map(|line| &line.points);
    let frame = Frame {
        x_label,
        y_label,
        from: points().map(|(x, _)| *x).fold(f64::INFINITY, f64::min),
        to: points().map(|(x, _)| *x).fold(f64::NEG_INFINITY, f64::max),
        whole: true,
        top: round_above(points().map(|(_, y)| *y).fold(0.0, f64::max)),
    };
    html! {
        (frame.open(title, html! {
            @for (index, line) in lines.iter().enumerate() {
                @let path: Vec<String> = line.points.iter().map(|(x, y)| format!("{},{}", fixed(frame.x(*x)), fixed(frame.y(*y)))).collect();
                polyline class=(color(index)) points=(path.join(" ")) {}
                @for (x, y) in line.points.iter().filter(|_| line.points.len() < CROWDED) {
                    circle class=(color(index)) cx=(fixed(frame.x(*x))) cy=(fixed(frame.y(*y))) r="3.5" {
                        title { (format!("{}: {x:.0} → {y:.4}", line.label)) }
                    }
                }
            }
        }))
        (legend(lines.iter().map(|line| line.label.as_str())))
    }
}

/// The smallest of 1, 2, 4 and 8 times a power of ten that is not below a value.
fn round_above(value: f64) -> f64 {
    if !(value > 0.0 && value.is_finite()) {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 4.0, 8.0, 10.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|top| *top >= value)
        .unwrap_or(value)
}

/// Like [`curves`], as a standalone file with a legend line below.
pub fn curves_alone(title: &str, x_label: &str, y_label: &str, series: &[Series]) -> String {
    alone(curves_svg(title, x_label, y_label, series), series)
}

/// Like [`reliability`], as a standalone file with a legend line below.
pub fn reliability_alone(title: &str, series: &[Series]) -> String {
    alone(reliability_svg(title, series), series)
}

/// A square chart as a standalone file with a legend line below.
fn alone(svg: Markup, series: &[Series]) -> String {
    let names: String = html! {
        @for (index, series) in series.iter().enumerate() {
            @let y = Frame::HEIGHT + 14.0 + index as f64 * 18.0;
            circle class=(color(index)) cx=(fixed(Frame::LEFT)) cy=(fixed(y - 4.0)) r="5" {}
            text x=(fixed(Frame::LEFT + 12.0)) y=(fixed(y)) { (series.label) }
        }
    }
    .into_string();
    let height = Frame::HEIGHT + 8.0 + 18.0 * series.len() as f64;
    let head = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 {WIDE:.0} {height:.0}\"><style>{}</style>",
        include_str!("page.css"),
        WIDE = Frame::WIDTH,
    );
    let svg = svg.into_string();
    let content = svg.split_once('>').map_or("", |(_, content)| content);
    let content = content.trim_end_matches("</svg>");
    format!("{head}{content}{names}</svg>\n")
}

/// Like [`bars`], as a standalone file.
pub fn bars_alone(title: &str, values: &[Bar]) -> String {
    let svg = bars(title, values).into_string();
    let (head, content) = svg.split_once('>').unwrap_or((&svg, ""));
    let style = include_str!("page.css");
    format!("{head} xmlns=\"http://www.w3.org/2000/svg\"><style>{style}</style>{content}\n")
}

/// A reliability diagram: bins of (mean probability, share of matches, number of cases).
pub fn reliability(title: &str, series: &[Series]) -> Markup {
    html! {
        (reliability_svg(title, series))
        (legend(series.iter().map(|series| series.label.as_str())))
    }
}

fn reliability_svg(title: &str, series: &[Series]) -> Markup {
    let frame = Frame::unit("predicted probability", "observed share");
    let most = series.iter().flat_map(|series| &series.points).map(|(_, _, count)| *count).max().unwrap_or(1);
    frame.open(title, html! {
        line.diagonal x1=(fixed(frame.x(0.0))) y1=(fixed(frame.y(0.0))) x2=(fixed(frame.x(1.0))) y2=(fixed(frame.y(1.0))) {}
        @for (index, series) in series.iter().enumerate() {
            @for (x, y, count) in series.points.iter().filter(|(_, _, count)| *count > 0) {
                circle class=(color(index)) cx=(fixed(frame.x(*x))) cy=(fixed(frame.y(*y))) r=(fixed(2.5 + 9.0 * (*count as f64 / most as f64).sqrt())) {
                    title { (format!("{}: predicted {x:.2}, observed {y:.2}, {count} cases", series.label)) }
                }
            }
        }
    })
}

/// A legend: names of series with their colors.
fn legend<'a>(labels: impl Iterator<Item = &'a str>) -> Markup {
    html! {
        ul.legend {
            @for (index, label) in labels.enumerate() {
                li { span class={ "swatch " (color(index)) } {} (label) }
            }
        }
    }
}

/// Axes of a square chart.
struct Frame<'a> {
    x_label: &'a str,
    y_label: &'a str,
    from: f64,
    to: f64,
    /// True if positions are integers.
    whole: bool,
    /// The value at the top; the bottom is 0.
    top: f64,
}

impl<'a> Frame<'a> {
    const SIZE: f64 = 280.0;
    const LEFT: f64 = 48.0;
    const TOP: f64 = 12.0;
    const WIDTH: f64 = Self::LEFT + Self::SIZE + 16.0;
    const HEIGHT: f64 = Self::TOP + Self::SIZE + 42.0;

    fn unit(x_label: &'a str, y_label: &'a str) -> Self {
        Self { x_label, y_label, from: 0.0, to: 1.0, whole: false, top: 1.0 }
    }

    fn x(&self, value: f64) -> f64 {
        let span = self.to - self.from;
        let share = if span > 0.0 { (value - self.from) / span } else { 0.5 };
        Self::LEFT + share.clamp(0.0, 1.0) * Self::SIZE
    }

    fn y(&self, value: f64) -> f64 {
        Self::TOP + (1.0 - (value / self.top).clamp(0.0, 1.0)) * Self::SIZE
    }

    /// Number of decimals that distinguishes the quarters of the height.
    fn decimals(&self) -> usize {
        let is_exact = |decimals: &usize| {
            let shifted = self.top / 4.0 * 10f64.powi(*decimals as i32);
            (shifted - shifted.round()).abs() < 1e-6
        };
        (0..8).find(is_exact).unwrap_or(2)
    }

    fn ticks(&self) -> Vec<(f64, String)> {
        if self.whole && self.from <= self.to {
            let step = ((self.to - self.from) / 8.0).ceil().max(1.0);
            let count = ((self.to - self.from) / step).floor() as usize;
            return (0..=count)
                .map(|tick| self.from + tick as f64 * step)
                .map(|at| (at, format!("{at:.0}")))
                .collect();
        }
        (0..=4).map(|tick| f64::from(tick) / 4.0).map(|at| (at, format!("{at:.2}"))).collect()
    }

    fn open(&self, title: &str, content: Markup) -> Markup {
        let (right, bottom) = (Self::LEFT + Self::SIZE, Self::TOP + Self::SIZE);
        let middle = Self::TOP + Self::SIZE / 2.0;
        html! {
            svg role="img" viewBox=(format!("0 0 {:.0} {:.0}", right + 16.0, bottom + 42.0)) width=(right + 16.0) {
                title { (title) }
                @for tick in 0..=4 {
                    @let value = f64::from(tick) / 4.0 * self.top;
                    line.grid x1=(fixed(Self::LEFT)) x2=(fixed(right)) y1=(fixed(self.y(value))) y2=(fixed(self.y(value))) {}
                    text.axis x=(fixed(Self::LEFT - 6.0)) y=(fixed(self.y(value) + 4.0)) text-anchor="end" { (format!("{value:.*}", self.decimals())) }
                }
                @for (at, label) in self.ticks() {
                    line.grid x1=(fixed(self.x(at))) x2=(fixed(self.x(at))) y1=(fixed(Self::TOP)) y2=(fixed(bottom)) {}
                    text.axis x=(fixed(self.x(at))) y=(fixed(bottom + 16.0)) text-anchor="middle" { (label) }
                }
                text.axis.name x=(fixed(Self::LEFT + Self::SIZE / 2.0)) y=(fixed(bottom + 34.0)) text-anchor="middle" { (shortened(self.x_label, 44)) }
                text.axis.name x="12" y=(fixed(middle)) text-anchor="middle" transform=(format!("rotate(-90 12 {middle:.0})")) { (shortened(self.y_label, 44)) }
                (content)
            }
        }
    }
}

/// A coordinate rounded to a tenth of a pixel.
fn fixed(value: f64) -> String {
    format!("{value:.1}")
}

/// Shortens a text to its end, the most informative part of a path.
fn shortened(text: &str, most: usize) -> String {
    let length = text.chars().count();
    if length <= most {
        text.to_owned()
    } else {
        format!("…{}", text.chars().skip(length - most + 1).collect::<String>())
    }
}

/// Shortens a text to its beginning.
fn beginning(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some(_) => format!("{}…", text.chars().take(most - 1).collect::<String>()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_leads_through_a_group_of_two() {
        let points = vec![(1.0, 0.2, 9), (2.0, 0.9, 2), (3.0, 0.4, 5)];
        let drawn = curves("t", "x", "y", &[Series { label: "a".into(), points }]).into_string();
        let line = drawn.split_once("points=\"").unwrap().1.split_once('"').unwrap().0;
        assert_eq!((line.split(' ').count(), drawn.matches("<circle").count()), (2, 3), "{drawn}");
    }

    #[test]
    fn the_axis_of_lines_ends_at_a_round_number_above_all() {
        for (value, expected) in
            [(0.0, 1.0), (1.0, 1.0), (3.2, 4.0), (0.03, 0.04), (8.1, 10.0), (f64::NAN, 1.0)]
        {
            assert!((round_above(value) - expected).abs() < 1e-12, "{value}: {}", round_above(value));
        }
        let line = |n: usize, height: f64| Line {
            label: "a <b>".into(),
            points: (1..=n).map(|x| (x as f64, height / x as f64)).collect(),
        };
        let drawn = lines("loss", "step", "loss", &[line(3, 3.2)]).into_string();
        // The first point is at 3.2 of 4: a fifth below the top.
        assert!(drawn.contains(r#"cx="48.0" cy="68.0""#) && drawn.contains(">4<"), "{drawn}");
        assert!(drawn.contains("a &lt;b&gt;: 1 → 3.2000"), "{drawn}");
        assert!(!lines("loss", "step", "loss", &[line(100, 3.2)]).into_string().contains("<circle"));
        assert!(lines("loss", "step", "loss", &[line(3, 0.03)]).into_string().contains(">0.01<"));
        assert!(!lines("loss", "step", "loss", &[]).into_string().contains("NaN"));
    }

    #[test]
    fn bars_of_counts_are_in_proportion_and_names_do_not_end_the_page() {
        let long = "x".repeat(50);
        let drawn = counts("of <b>", &[("a & b".into(), 4), (long, 1), ("none".into(), 0)]).into_string();
        assert!(drawn.contains("<title>of &lt;b&gt;</title>") && drawn.contains("a &amp; b: 4"), "{drawn}");
        assert!(drawn.contains(r#"width="360.0""#) && drawn.contains(r#"width="90.0""#), "{drawn}");
        assert!(drawn.contains(&format!("{}…", "x".repeat(31))), "{drawn}");
        assert!(!counts("nothing", &[]).into_string().contains("NaN"));
    }
}
