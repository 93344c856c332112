//! Names the library as runtime packages name cuFile's.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcufile.so.0");
}
