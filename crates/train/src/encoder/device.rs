//! Devices for training.

use candle_core::Device as Inner;

use crate::TrainError;

#[derive(Debug, Clone)]
pub struct Device(Inner);

impl Device {
    /// The processor, which computes in fused steps.
    pub fn cpu() -> Device {
        Device(Inner::Cpu)
    }

    /// The first CUDA device.
    ///
    /// # Errors
    /// When the program is built without the feature `cuda`, or no driver or device is found.
    pub fn cuda() -> Result<Device, TrainError> {
        if !cfg!(feature = "cuda") {
            return Err(TrainError::Settings(
                "this program is built without the feature `cuda`, which trains on a GPU; build it on a machine with \
                 NVIDIA's compiler, `nvcc`: `cargo install --locked --path crates/cli --features cuda`"
                    .into(),
            ));
        }
        Inner::new_cuda(0).map(Device).map_err(TrainError::Device)
    }

    /// `cpu`, or `cuda` with the name of the GPU.
    pub fn name(&self) -> String {
        #[cfg(feature = "cuda")]
        if let Inner::Cuda(device) = &self.0
            && let Ok(name) = device.cuda_stream().context().name()
        {
            return format!("cuda ({name})");
        }
        if self.0.is_cpu() { "cpu".to_owned() } else { "cuda".to_owned() }
    }

    pub(super) fn inner(&self) -> &Inner {
        &self.0
    }
}
