//! Path types between the devices of a node, by NCCL's names.

/// A set of path types. Their order differs between versions of NCCL, so none is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathTypes(u16);

/// Names of path types; the position of a name is its bit in the set.
const NAMES: [&[u8]; 12] = [
    b"LOC", b"NVL", b"NVB", b"C2C", b"PIX", b"PXB", b"P2C", b"PXN", b"PHB", b"SYS", b"NET", b"DIS",
];

impl PathTypes {
    /// From a device to itself.
    pub const LOC: PathTypes = PathTypes(1);
    /// NVLink.
    pub const NVL: PathTypes = PathTypes(1 << 1);
    /// Through the NIC of another GPU.
    pub const PXN: PathTypes = PathTypes(1 << 7);

    /// Returns the set with the path type called `name`.
    pub fn from_name(name: &[u8]) -> Option<PathTypes> {
        let bit = NAMES.iter().position(|known| *known == name)?;
        Some(PathTypes(1 << bit))
    }

    /// Adds the path types of `other`.
    pub fn insert(&mut self, other: PathTypes) {
        self.0 |= other.0;
    }

    /// Returns whether any path type of `other` is in the set.
    pub fn has(self, other: PathTypes) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the names in the set, separated by commas.
    pub fn names(self) -> String {
        let mut names = Vec::new();
        for (bit, name) in NAMES.iter().enumerate() {
            if self.has(PathTypes(1 << bit)) {
                names.push(String::from_utf8_lossy(name));
            }
        }
        names.join(", ")
    }
}

/// The paths of one GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuPaths {
    /// To other GPUs of the node.
    pub gpus: PathTypes,
    /// To NICs.
    pub nics: PathTypes,
}

impl GpuPaths {
    /// Adds the paths of another GPU.
    pub fn insert(&mut self, other: GpuPaths) {
        self.gpus.insert(other.gpus);
        self.nics.insert(other.nics);
    }
}
