//! Says what `warpio_cuda::probe` finds in a process of its own: a process finds it once.

fn main() {
    match warpio_cuda::probe() {
        Ok(cuda) => println!("CUDA {} with {} devices", cuda.driver, cuda.devices),
        Err(reason) => println!("{reason:?}: {reason}"),
    }
    match warpio_cuda::cuda_device(0, warpio_cuda::CudaOptions::default()) {
        Ok(device) => println!("{device}"),
        Err(error) => println!("{:?}: {error}", error.kind()),
    }
}
