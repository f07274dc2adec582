//! `ddp-resnet50`: torchvision's ResNet-50, with 64 images of 224 × 224 pixels per rank.

use super::{
    ddp::{DdpModel, ModuleBuffers, Parameter, optimizer_time},
    options::WorkloadOptions,
};
use crate::{collective::data::DType, units::Micros, workload::operation::Workload};

/// For each stage: the number of blocks, the channels within a block, and the height and width of
/// its images in pixels.
const STAGES: [(u64, u64, u64); 4] = [(3, 64, 56), (4, 128, 28), (6, 256, 14), (3, 512, 7)];

/// The output channels of a block over the channels within it.
const EXPANSION: u64 = 4;

/// The measured time of a step without synchronization: two H200, PyTorch 2.11, float32, SGD.
const STEP: Micros = Micros(32_110.0);

pub(super) const ABOUT: &str = "ResNet-50 in PyTorch's DistributedDataParallel, float32, 64 \
                                images per rank: buckets and copies as PyTorch has them, \
                                computation as measured on an H200 (32.1 ms), divided by \
                                operations";

pub(super) fn workload(options: &WorkloadOptions) -> Workload {
    let mut layers = ResNetLayers::default();
    layers.convolution(7, 3, 64, 112);
    let mut channels = 64;
    for (stage, (blocks, width, side)) in STAGES.into_iter().enumerate() {
        for block in 0..blocks {
            // The 3 × 3 convolution of the first block of a stage halves the image, except in the
            // first stage.
            let before = if block == 0 && stage > 0 {
                2 * side
            } else {
                side
            };
            layers.convolution(1, channels, width, before);
            layers.convolution(3, width, width, side);
            layers.convolution(1, width, width * EXPANSION, side);
            if block == 0 {
                layers.convolution(1, channels, width * EXPANSION, side);
            }
            channels = width * EXPANSION;
        }
    }
    layers.classifier(channels, 1000);
    let norms = layers.norms;
    let optimizer = optimizer_time(layers.elements());
    // Means and variances, and how many batches there were.
    let buffers = vec![
        ModuleBuffers {
            count: 2 * norms,
            elements: 2 * layers.normalized,
            dtype: DType::Float,
        },
        ModuleBuffers {
            count: norms,
            elements: norms.into(),
            dtype: DType::Int64,
        },
    ];
    let model = DdpModel {
        name: "ddp-resnet50",
        about: ABOUT,
        buffers,
        parameters: layers.parameters,
        forward: Micros((STEP.0 - optimizer.0) / 3.0),
        before_gradients: 0.0,
    };
    model.workload(options)
}

/// The layers of a ResNet in order.
#[derive(Default)]
struct ResNetLayers {
    parameters: Vec<Parameter>,
    /// The number of batch norms.
    norms: u32,
    /// The channels of all batch norms.
    normalized: u64,
}

impl ResNetLayers {
    /// Adds a convolution of `kernel` × `kernel` whose output images have `side` × `side` pixels,
    /// and its batch norm.
    fn convolution(&mut self, kernel: u64, channels: u64, output: u64, side: u64) {
        let weights = kernel * kernel * channels * output;
        self.parameters.push(Parameter {
            elements: weights,
            work: (weights * side * side) as f64,
        });
        // The weight and the bias of the batch norm.
        for _ in 0..2 {
            self.parameters.push(without_work(output));
        }
        self.norms += 1;
        self.normalized += output;
    }

    fn classifier(&mut self, inputs: u64, classes: u64) {
        let elements = inputs * classes;
        self.parameters.push(Parameter {
            elements,
            work: elements as f64,
        });
        self.parameters.push(without_work(classes));
    }

    fn elements(&self) -> u64 {
        self.parameters.iter().map(|it| it.elements).sum()
    }
}

fn without_work(elements: u64) -> Parameter {
    Parameter {
        elements,
        work: 0.0,
    }
}
