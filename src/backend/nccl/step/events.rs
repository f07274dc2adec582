//! [`StepEvents`]: the events of one step, by which streams wait for each other and the GPU's clock
//! times the operations.

use anyhow::Context;
use cudarc::driver::CudaEvent;

use super::super::device::Device;
use crate::backend::step::{Span, StepTimes};

/// The events around an operation.
pub(super) struct OperationEvents {
    pub(super) begin: CudaEvent,
    pub(super) end: CudaEvent,
}

impl OperationEvents {
    /// Returns whether the operation has ended, once its end has been recorded. What has failed
    /// never has; the polling of the stream says so.
    pub(super) fn has_ended(&self) -> bool {
        self.end.is_complete()
    }
}

/// The events of one step.
pub(super) struct StepEvents {
    pub(super) begin: CudaEvent,
    pub(super) end: CudaEvent,
    /// Those around each operation; `None` if it does not run.
    operations: Vec<Option<OperationEvents>>,
}

impl StepEvents {
    /// Creates the events of a step of `count` operations, of which those of these `numbers` run.
    ///
    /// # Errors
    /// Returns an error if the driver fails.
    pub(super) fn new(
        device: &Device,
        count: usize,
        numbers: impl Iterator<Item = usize>,
    ) -> anyhow::Result<StepEvents> {
        let mut operations = Vec::with_capacity(count);
        operations.resize_with(count, || None);
        for number in numbers {
            operations[number] = Some(OperationEvents {
                begin: device.event()?,
                end: device.event()?,
            });
        }
        Ok(StepEvents {
            begin: device.event()?,
            end: device.event()?,
            operations,
        })
    }

    /// Returns the events around operation `number`.
    ///
    /// # Errors
    /// Returns an error if it does not run, which would be a bug.
    pub(super) fn of(&self, number: usize) -> anyhow::Result<&OperationEvents> {
        let events = self.operations.get(number).and_then(Option::as_ref);
        events.context("an operation waits for one that does not run")
    }

    /// Returns the times of the step. All events have passed.
    ///
    /// # Errors
    /// Returns an error if the driver fails.
    pub(super) fn times(&self) -> anyhow::Result<StepTimes> {
        let mut operations = Vec::with_capacity(self.operations.len());
        for events in &self.operations {
            operations.push(match events {
                None => None,
                Some(events) => Some(Span {
                    begin: Device::time_between(&self.begin, &events.begin)?,
                    end: Device::time_between(&self.begin, &events.end)?,
                }),
            });
        }
        Ok(StepTimes {
            total: Device::time_between(&self.begin, &self.end)?,
            operations,
        })
    }
}
