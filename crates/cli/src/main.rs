//! The program `seekless`; what it does is in the library.

fn main() -> std::process::ExitCode {
    seekless_cli::run(seekless_cli::Call::of_process()).into()
}
