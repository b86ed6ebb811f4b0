//! A training step in parts: a batch is cut into equal parts, done one after the other, on several devices, or both, and
//! one update is made of the sums of their gradients. Every part is normalised by the counts of the whole batch, so the
//! sums are the gradients and the losses of the batch.

use super::parameters::{Arena, Parameter, ParameterTable};
use crate::gpu::{Plan, Tensor};
use crate::ops::{RowMetrics, Scalar, accumulate};

/// What a step sums over the parts of a batch, and when.
///
/// Its commands up to the last stage are run for every part; those from there on, the update, once.
#[derive(Debug, Clone)]
pub struct PartSums {
    /// Of the gradients. Where a device does a single part they are those themselves.
    pub gradients: Arena,
    /// In the order in which they are complete; the last one ends where the update begins.
    pub stages: Vec<Stage>,
    /// Where the gradients of a part are, if that is elsewhere.
    of_part: Option<Arena>,
    adds: Scalar,
}

/// Sums that are complete when the commands before `end` are done.
#[derive(Debug, Clone)]
pub struct Stage {
    /// A [`position`](Plan::position) in the plan.
    pub end: usize,
    /// The sums.
    pub sums: Vec<Tensor>,
}

impl PartSums {
    pub(super) fn new(
        plan: &mut Plan,
        table: &ParameterTable,
        of_part: &Arena,
        several: bool,
        adds: Scalar,
    ) -> Self {
        let sums = several.then(|| Arena::new(plan, "sums of gradients", table));
        let first = Stage { end: plan.position(), sums: Vec::new() };
        Self {
            gradients: sums.as_ref().unwrap_or(of_part).clone(),
            of_part: sums.map(|_| of_part.clone()),
            stages: vec![first],
            adds,
        }
    }

    /// Where the update begins.
    pub fn update(&self) -> usize {
        self.stages.last().map_or(0, |stage| stage.end)
    }

    /// Append the sums of a task's rows over the parts, which take the rows' place in all that follows.
    pub(super) fn rows(&mut self, plan: &mut Plan, task: &str, rows: RowMetrics) -> RowMetrics {
        let mut sum = |what: &str, x: Tensor| {
            let sum = plan.persistent(&format!("sums of {task} {what}"), x.len());
            accumulate(plan, x, sum, self.adds);
            sum
        };
        let (row_loss, row_hit) = (sum("losses", rows.row_loss), sum("hits", rows.row_hit));
        self.stages[0].sums.extend([row_loss, row_hit]);
        self.stages[0].end = plan.position();
        RowMetrics { row_loss, row_hit, ..rows }
    }

    /// The gradients of all parameters whose names start so are done.
    fn stage(&mut self, plan: &mut Plan, table: &ParameterTable, prefixes: &[&str]) {
        let is_done = |p: &&Parameter| prefixes.iter().any(|prefix| p.name.starts_with(prefix));
        let mut sums = Vec::new();
        for slab in 0..table.slabs.len() {
            // They lie one after another.
            let done = || table.parameters.iter().filter(is_done).filter(|p| p.slab == slab);
            let Some(start) = done().map(|p| p.offset).min() else { continue };
            let end = done().map(|p| p.offset + p.len()).max().unwrap_or(start);
            let end = end.next_multiple_of(Tensor::ALIGNMENT_WORDS);
            let part = |arena: &Arena| arena.slabs[slab].part(start, end - start);
            let sum = part(&self.gradients);
            if let Some(of_part) = &self.of_part {
                accumulate(plan, part(of_part), sum, self.adds);
            }
            sums.push(sum);
        }
        self.stages.push(Stage { end: plan.position(), sums });
    }
}

/// The end of a stage, where a step has any.
pub(super) trait Stages {
    /// The gradients of all parameters whose names start so are done.
    fn stage(&mut self, plan: &mut Plan, table: &ParameterTable, prefixes: &[&str]);
}

impl Stages for Option<PartSums> {
    fn stage(&mut self, plan: &mut Plan, table: &ParameterTable, prefixes: &[&str]) {
        if let Some(sums) = self {
            sums.stage(plan, table, prefixes);
        }
    }
}
