//! The program `seekless-hub`; the work is done in the library.

fn main() -> std::process::ExitCode {
    seekless_hub::command::run()
}
