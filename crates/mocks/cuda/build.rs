//! Names the library as the driver is named, so that `dlopen("libcuda.so")` finds it once it is loaded by its path.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so");
}
