//! Nothing: its manifest gives dependencies one set of features, whichever packages are built.
