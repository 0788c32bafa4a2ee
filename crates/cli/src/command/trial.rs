//! `seekless trial`: the child's side of a trial. Hidden: a parent starts it and talks to it over its pipes.

pub(super) fn run() -> anyhow::Result<()> {
    seekless_lab::trial::child::serve(&mut std::io::stdin().lock(), &mut std::io::stdout().lock())?;
    Ok(())
}
