// SPDX-License-Identifier: MIT
//! Which rows are shown, and in which order: sorted, filtered, as a list or as a tree.

use std::collections::HashMap;

use mallow_process::processes::Row;

use super::sort::Sort;

/// Deeper than this, children are not indented any more.
const DEEPEST: usize = 8;

#[derive(Clone, Debug, Default)]
pub struct View {
    pub sort: Sort,
    pub reverse: bool,
    pub filter: String,
    pub tree: bool,
    pub unicode: bool,
}

/// A line of the list: which row, and the branches of the tree in front of its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub row: usize,
    pub branch: String,
}

impl View {
    pub fn places(&self, rows: &[Row]) -> Vec<Place> {
        let wanted = self.filter.to_lowercase();
        let mut shown: Vec<usize> =
            (0..rows.len()).filter(|&index| is_found(&rows[index], &wanted)).collect();
        shown.sort_by(|&a, &b| self.sort.compare(self.reverse, &rows[a], &rows[b]));
        if self.tree {
            return self.as_tree(rows, &shown);
        }
        shown.into_iter().map(|row| Place { row, branch: String::new() }).collect()
    }

    /// Each below the nearest of its ancestors that is shown.
    fn as_tree(&self, rows: &[Row], shown: &[usize]) -> Vec<Place> {
        let by_pid: HashMap<u32, usize> =
            rows.iter().enumerate().map(|(index, row)| (row.pid, index)).collect();
        let mut is_shown = vec![false; rows.len()];
        shown.iter().for_each(|&index| is_shown[index] = true);
        let above = |index: usize| {
            let mut at = index;
            // Numbers may have been given away between two reads, so parents may form a circle.
            for _ in 0..rows.len() {
                at = *by_pid.get(&rows[at].parent)?;
                if at == index {
                    return None;
                }
                if is_shown[at] {
                    return Some(at);
                }
            }
            None
        };
        let mut children: HashMap<usize, Vec<usize>> = HashMap::new();
        let mut roots = Vec::new();
        for &index in shown {
            match above(index) {
                Some(parent) => children.entry(parent).or_default().push(index),
                None => roots.push(index),
            }
        }
        let mut places = Vec::with_capacity(shown.len());
        let mut is_placed = vec![false; rows.len()];
        // What only a circle leads to begins a tree of its own.
        for root in roots.into_iter().chain(shown.iter().copied()) {
            self.grow(root, &children, &mut is_placed, &mut places);
        }
        places
    }

    fn grow(
        &self,
        root: usize,
        children: &HashMap<usize, Vec<usize>>,
        is_placed: &mut [bool],
        places: &mut Vec<Place>,
    ) {
        let [fork, end, line] =
            if self.unicode { ["├─", "└─", "│ "] } else { ["|-", "`-", "| "] };
        // A row, what stands before its own branch, that branch, and what stands before its children.
        let mut open = vec![(root, String::new(), "", "")];
        while let Some((row, stem, own, below)) = open.pop() {
            if std::mem::replace(&mut is_placed[row], true) {
                continue;
            }
            places.push(Place { row, branch: format!("{stem}{own}") });
            let room = stem.chars().count() < 2 * DEEPEST;
            let stem = if room { format!("{stem}{below}") } else { stem };
            let children = children.get(&row).map_or(&[][..], Vec::as_slice);
            for (index, &child) in children.iter().enumerate().rev() {
                let is_last = index + 1 == children.len();
                let (own, below) = if is_last { (end, "  ") } else { (fork, line) };
                open.push((child, stem.clone(), own, below));
            }
        }
    }
}

/// The text in small letters.
fn is_found(row: &Row, wanted: &str) -> bool {
    let has = |text: &str| text.to_lowercase().contains(wanted);
    wanted.is_empty()
        || has(&row.name)
        || has(&row.command)
        || has(&row.user)
        || row.allocator.as_deref().is_some_and(has)
        || row.pid.to_string().contains(wanted)
}

#[cfg(test)]
mod tests {
    use super::super::sort::tests::row;
    use super::*;

    fn rows() -> Vec<Row> {
        let mut rows = vec![
            row(1, 0, "init", 10),
            row(20, 1, "shell", 30),
            row(21, 1, "redis", 20),
            row(30, 20, "python", 90),
            row(31, 30, "worker", 5),
        ];
        rows[2].live = None;
        rows[2].allocator = Some("Mallow".into());
        rows
    }

    fn names(view: &View, rows: &[Row]) -> Vec<String> {
        let places = view.places(rows);
        places.iter().map(|place| format!("{}{}", place.branch, rows[place.row].name)).collect()
    }

    #[test]
    fn rows_are_sorted_and_what_is_unknown_comes_last() {
        let rows = rows();
        let view = |sort, reverse| View { sort, reverse, ..View::default() };
        assert_eq!(names(&view(Sort::Rss, false), &rows)[..2], ["python", "shell"]);
        assert_eq!(names(&view(Sort::Rss, true), &rows)[..2], ["worker", "init"]);
        for reverse in [false, true] {
            assert_eq!(names(&view(Sort::Live, reverse), &rows)[4], "redis");
        }
        assert_eq!(names(&view(Sort::Name, false), &rows)[0], "init");
        assert_eq!(Sort::Rss.back().step(1), Sort::Rss);
    }

    #[test]
    fn filters_know_numbers_names_and_allocators() {
        let rows = rows();
        let view = |filter: &str| View { filter: filter.into(), ..View::default() };
        assert_eq!(names(&view("mallow"), &rows), ["redis"]);
        assert_eq!(names(&view("PYTH"), &rows), ["python"]);
        assert_eq!(names(&view("31"), &rows), ["worker"]);
        assert!(names(&view("\u{1b}[31m"), &rows).is_empty());
    }

    #[test]
    fn trees_keep_their_order_and_skip_what_is_hidden() {
        let rows = rows();
        let tree = View { tree: true, ..View::default() };
        let whole = ["init", "|-shell", "| `-python", "|   `-worker", "`-redis"];
        assert_eq!(names(&tree, &rows), whole);
        let part = View { filter: "r".into(), unicode: true, ..tree.clone() };
        // "shell" has the r of its user: of root.
        assert_eq!(names(&part, &rows).len(), 5);
        let some = View { filter: "o".into(), ..tree };
        let mut rows = rows;
        rows.iter_mut().for_each(|row| row.user = "us".into());
        rows.iter_mut().for_each(|row| row.allocator = None);
        assert_eq!(names(&some, &rows), ["python", "`-worker"]);
    }

    #[test]
    fn circles_end() {
        let rows = [row(5, 6, "a", 2), row(6, 5, "b", 1), row(7, 7, "c", 9)];
        let tree = View { tree: true, ..View::default() };
        assert_eq!(tree.places(&rows).len(), 3);
        // As deep as processes can be.
        let chain: Vec<Row> = (1..20_000).map(|pid| row(pid, pid - 1, "x", 1)).collect();
        let places = tree.places(&chain);
        assert_eq!(places.len(), chain.len());
        assert!(places.iter().all(|place| place.branch.len() <= 2 * DEEPEST + 2));
    }
}
