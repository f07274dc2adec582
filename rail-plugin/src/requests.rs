//! [`Requests`]: the operations that NCCL has started, and whether they are complete.

use std::collections::HashMap;

use crate::failure::{Failure, Result};

/// The operations of one connection. NCCL tests each until it is complete, in any order.
#[derive(Default)]
pub(crate) struct Requests {
    /// The number of the last operation.
    last: u32,
    /// The operations that NCCL has not found complete, by their numbers. A complete one has the
    /// bytes of each of its messages.
    open: HashMap<u32, Option<Vec<u64>>>,
}

impl Requests {
    /// Begins an operation, and returns its number, which is never 0.
    pub(crate) fn begin(&mut self) -> u32 {
        loop {
            self.last = self.last.checked_add(1).unwrap_or(1);
            if !self.open.contains_key(&self.last) {
                break;
            }
        }
        self.open.insert(self.last, None);
        self.last
    }

    /// Marks an operation as complete.
    pub(crate) fn complete(&mut self, number: u32, bytes: Vec<u64>) {
        self.open.insert(number, Some(bytes));
    }

    /// Removes an operation that is complete, and returns the bytes of each of its messages; `None`
    /// if it is not complete.
    ///
    /// # Errors
    /// Returns an error if there is no such operation.
    pub(crate) fn take(&mut self, number: u32) -> Result<Option<Vec<u64>>> {
        match self.open.get(&number) {
            None => Err(Failure::internal(format!(
                "NCCL tests operation {number} of a rail, which it has not started."
            ))),
            Some(None) => Ok(None),
            Some(Some(_)) => Ok(self.open.remove(&number).flatten()),
        }
    }
}

/// One end of a connection, whose operations NCCL tests.
pub(crate) trait Operations {
    /// Returns its operations.
    fn requests(&mut self) -> &mut Requests;

    /// Does what can be done without waiting.
    ///
    /// # Errors
    /// Returns an error if the connection is broken.
    fn advance(&mut self) -> Result<()>;

    /// Returns the bytes of each message of an operation that is complete; `None` if it is not
    /// complete.
    ///
    /// # Errors
    /// Returns an error if the connection is broken, or if NCCL has not started that operation.
    fn test(&mut self, request: u32) -> Result<Option<Vec<u64>>> {
        if let Some(done) = self.requests().take(request)? {
            return Ok(Some(done));
        }
        let advanced = self.advance();
        // The operation may have been completed before the connection broke.
        if let Some(done) = self.requests().take(request)? {
            return Ok(Some(done));
        }
        advanced.map(|()| None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_end_in_any_order_and_once() {
        let mut requests = Requests::default();
        let (first, second) = (requests.begin(), requests.begin());
        assert_ne!(first, second);
        requests.complete(second, vec![7, 0]);
        assert_eq!(requests.take(first).expect("known"), None);
        assert_eq!(requests.take(second).expect("known"), Some(vec![7, 0]));
        let failure = requests.take(second).expect_err("it has ended");
        assert!(failure.sentence.contains("has not started"));
        requests.complete(first, vec![]);
        assert_eq!(requests.take(first).expect("known"), Some(vec![]));
    }

    #[test]
    fn numbers_begin_again_and_are_never_those_of_open_operations() {
        let mut requests = Requests::default();
        let first = requests.begin();
        requests.last = u32::MAX;
        assert_eq!((first, requests.begin()), (1, 2));
    }
}
