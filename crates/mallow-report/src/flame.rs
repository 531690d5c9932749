// SPDX-License-Identifier: MIT
//! The tree behind flame graphs, and behind the difference of two of them.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::profile::{Costs, Metric, Profile};

/// A node is left out of the tree if it is less than this part of the whole in every metric.
const SMALLEST_PART: f64 = 0.0005;

/// One function as called from one place; the values include what it calls.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Node {
    #[serde(rename = "n")]
    pub name: String,
    /// In the order of `Metric::ALL`.
    #[serde(rename = "v")]
    pub values: [u64; 5],
    /// The other trace's values, where there is one.
    #[serde(rename = "o", skip_serializing_if = "Option::is_none")]
    pub other: Option<[u64; 5]>,
    #[serde(rename = "c", skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Node>,
}

/// The tree of one trace, or of two with the values of both.
pub fn tree(profile: &Profile, other: Option<&Profile>) -> Node {
    let mut root = Branch::default();
    for (stack, costs) in profile.by_function() {
        root.add(&stack, &costs, Side::This);
    }
    for (stack, costs) in other.map(Profile::by_function).unwrap_or_default() {
        root.add(&stack, &costs, Side::Other);
    }
    let least: [f64; 5] = std::array::from_fn(|metric| {
        root.values[0][metric].max(root.values[1][metric]) as f64 * SMALLEST_PART
    });
    root.into_node("all".into(), &least, other.is_some())
}

#[derive(Clone, Copy)]
enum Side {
    This,
    Other,
}

/// A node while the tree grows; its children are found by name.
#[derive(Default)]
struct Branch {
    values: [[u64; 5]; 2],
    children: BTreeMap<String, Branch>,
}

impl Branch {
    fn add(&mut self, stack: &str, costs: &Costs, side: Side) {
        self.count(costs, side);
        let mut branch = self;
        for name in stack.split(';').filter(|name| !name.is_empty()) {
            branch = branch.children.entry(name.to_owned()).or_default();
            branch.count(costs, side);
        }
    }

    fn count(&mut self, costs: &Costs, side: Side) {
        for (value, metric) in self.values[side as usize].iter_mut().zip(Metric::ALL) {
            *value = value.saturating_add(metric.of(costs));
        }
    }

    fn into_node(self, name: String, least: &[f64; 5], both: bool) -> Node {
        let [values, other] = self.values;
        let children = self.children.into_iter().filter(|(_, child)| child.is_visible(least));
        Node {
            name,
            values,
            other: both.then_some(other),
            children: children.map(|(name, child)| child.into_node(name, least, both)).collect(),
        }
    }

    fn is_visible(&self, least: &[f64; 5]) -> bool {
        let enough = |values: &[u64; 5]| {
            values.iter().zip(least).any(|(value, least)| *value > 0 && *value as f64 >= *least)
        };
        self.values.iter().any(enough)
    }
}

/// How one function, wherever it was called from, differs between two traces.
#[derive(Clone, Debug, Serialize)]
pub struct Change {
    pub stack: String,
    pub before: u64,
    pub after: u64,
}

/// The stacks whose value changed most, in either direction.
pub fn changes(after: &Profile, before: &Profile, metric: Metric, number: usize) -> Vec<Change> {
    let mut stacks: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    for (index, profile) in [before, after].into_iter().enumerate() {
        for (stack, costs) in profile.by_function() {
            let value = &mut stacks.entry(stack).or_default()[index];
            *value = value.saturating_add(metric.of(&costs));
        }
    }
    let mut changes: Vec<Change> = stacks
        .into_iter()
        .filter(|(_, [before, after])| before != after)
        .map(|(stack, [before, after])| Change { stack, before, after })
        .collect();
    changes.sort_by_key(|change| std::cmp::Reverse(change.before.abs_diff(change.after)));
    changes.truncate(number);
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::tests::sample;

    #[test]
    fn a_node_holds_what_it_calls() {
        let root = tree(&sample(), None);
        assert_eq!(root.values[..2], [9725, 16]);
        let read = &root.children[0].children[0];
        assert_eq!((read.name.as_str(), read.values[1]), ("read_file", 16));
        assert_eq!(read.children[0].values[..2], [1500, 15]);
        assert!(root.other.is_none());
    }

    #[test]
    fn a_trace_does_not_differ_from_itself() {
        let (one, two) = (sample(), sample());
        assert!(changes(&one, &two, Metric::Bytes, 10).is_empty());
        let mut more = sample();
        let costs =
            Costs { allocated: crate::held::Amount { blocks: 1, bytes: 77 }, ..Costs::default() };
        more.add(vec![0], &costs);
        let changes = changes(&more, &one, Metric::Bytes, 10);
        assert_eq!((changes.len(), changes[0].before, changes[0].after), (1, 0, 77));
        let root = tree(&more, Some(&one));
        assert_eq!((root.values[0], root.other.map(|other| other[0])), (9802, Some(9725)));
    }
}
