// SPDX-License-Identifier: MIT
//! What stands on screens of several sizes.

use mallow_process::processes::{Bound, BoundOf, Why};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::super::sort::tests::row;
use super::super::view::View;
use super::*;

fn rows() -> Vec<Row> {
    let mut rows: Vec<Row> =
        (1..30u32).map(|n| row(n, n / 2, "worker", u64::from(n) << 20)).collect();
    rows[28].name = "big\u{1b}[2J\n".into();
    rows[28].allocator = Some("mallow".into());
    rows[28].rss_per_s = Some(3e6);
    rows[28].rss_history = vec![0, 1 << 20, 9 << 20, 29 << 20];
    rows[28].limit = Some(Bound::new(BoundOf::ControlGroup, 100 << 20, 95 << 20));
    rows[27].live = None;
    rows[27].free = None;
    rows[27].heap_age_s = None;
    rows[27].why_no_heap = Some(Why::OtherUser);
    rows[27].name = "漢字漢字漢字漢字漢字漢字漢字".into();
    rows
}

fn drawn(
    width: u16,
    height: u16,
    over: Over,
    change: impl FnOnce(&mut Picture),
) -> (String, Terminal<TestBackend>) {
    let rows = rows();
    let view = View { unicode: true, ..View::default() };
    let places = view.places(&rows);
    let mut picture = Picture {
        rows: &rows,
        places: &places,
        selected: Some(0),
        top: 0,
        sort: view.sort,
        reverse: false,
        units: Units::Auto,
        unicode: true,
        coloured: true,
        summary: "29 processes",
        bottom: None,
        over,
    };
    change(&mut picture);
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, &picture)).unwrap();
    (terminal.backend().to_string(), terminal)
}

#[test]
fn everything_is_there_at_80x24() {
    let (text, _) = drawn(80, 24, Over::Nothing, |_| {});
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 24);
    assert!(lines[0].contains("29 processes"), "{text}");
    for title in ["PID", "ALLOC", "RSS▼", "LIVE", "FREE", "AGE", "RATE", "HISTORY", "ROOM", "NAME"]
    {
        assert!(lines[1].contains(title), "{title}: {text}");
    }
    for cell in ["29 mallow", "29.0M", "14.5M", "3.62M", " 3s ", "+2.86M/s", "▁▁▃█", "!5.00M"]
    {
        assert!(lines[2].contains(cell), "{cell}: {text}");
    }
    assert!(lines[2].contains("big\\u{1b}[2"), "{text}");
    assert!(lines[3].contains("  other user"), "{text}");
    assert!(
        lines[22].contains("29 (root): heap read 3s ago; 5.00M of the control group's 100M left")
    );
    assert!(lines[23].contains("Enter explain") && lines[23].contains("q quit"), "{text}");
}

#[test]
fn what_matters_is_there_at_40x12() {
    let (text, _) = drawn(40, 12, Over::Nothing, |_| {});
    let lines: Vec<&str> = text.lines().collect();
    for title in ["PID", "ALLOC", "RSS", "LIVE", "NAME"] {
        assert!(lines[1].contains(title), "{title}: {text}");
    }
    assert!(lines[2].contains("29 mallow   29.0M 14.5M big"), "{text}");
    assert!(lines[11].contains("? help  q quit"), "{text}");
    assert!(HELP.iter().all(|line| line.chars().count() <= 40), "the help fits");
}

#[test]
fn the_selected_line_and_colours_can_be_told_apart() {
    let is_reversed = |terminal: &Terminal<TestBackend>, line: u16| {
        terminal.backend().buffer()[(3, line)].modifier.contains(Modifier::REVERSED)
    };
    let (_, terminal) = drawn(80, 24, Over::Nothing, |_| {});
    assert!(is_reversed(&terminal, 2) && !is_reversed(&terminal, 3));
    let colours = |terminal: &Terminal<TestBackend>| {
        terminal.backend().buffer().content.iter().filter(|cell| cell.fg != Color::Reset).count()
    };
    assert!(colours(&terminal) > 0);
    let (text, terminal) = drawn(80, 24, Over::Nothing, |picture| picture.coloured = false);
    assert_eq!(colours(&terminal), 0);
    assert!(text.contains('+'), "a sign says it too");
}

#[test]
fn no_size_is_too_small() {
    let lines = ["x".repeat(50)];
    for width in [1, 2, 5, 19, 20, 21, 39, 300] {
        for height in [0, 1, 2, 3, 5, 6, 8, 9, 60] {
            for over in [
                Over::Nothing,
                Over::Question("Record process 7 (redis) by probes of the kernel? y n"),
                Over::Pane { title: "mallow explain 7", lines: &lines, top: 0, left: 3 },
            ] {
                drawn(width, height, over, |picture| {
                    picture.selected = Some(28);
                    picture.top = 28;
                });
            }
        }
    }
    let (text, _) = drawn(20, 5, Over::Nothing, |_| {});
    assert!(text.contains("PID NAME") && text.contains("29 big"), "{text}");
}

#[test]
fn an_empty_list_says_so() {
    let (text, _) = drawn(80, 24, Over::Nothing, |picture| picture.places = &[]);
    assert!(text.contains("No process that matches."), "{text}");
}

#[test]
fn panes_scroll_in_both_directions() {
    let lines: Vec<String> = (0..100).map(|n| format!("line {n} {}", "x".repeat(90))).collect();
    let over = Over::Pane { title: "mallow explain 7", lines: &lines, top: 42, left: 5 };
    let (text, _) = drawn(40, 12, over, |_| {});
    assert!(text.contains("mallow explain 7") && text.contains("\"42 xxx"), "{text}");
    assert!(text.contains("43-52 of 100"), "{text}");
}
