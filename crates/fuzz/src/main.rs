//! `rowlock-fuzz seeds FOLDER`: writes where each target begins. `rowlock-fuzz run TARGET FILE…`: tries single inputs.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match &words[..] {
        ["seeds", folder] => seeds(Path::new(folder)),
        ["run", target, files @ ..] if !files.is_empty() => return run(target, files),
        _ => {
            eprintln!("usage: rowlock-fuzz seeds FOLDER | rowlock-fuzz run TARGET FILE…");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn seeds(folder: &Path) {
    for (target, _) in rowlock_fuzz::TARGETS {
        let folder = folder.join(target);
        std::fs::create_dir_all(&folder).expect("the folder can be made");
        for (i, seed) in rowlock_fuzz::seeds::of(target).into_iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{i:02}")), seed).expect("a seed can be written");
        }
    }
}

fn run(target: &str, files: &[&str]) -> ExitCode {
    let Some((_, function)) = rowlock_fuzz::TARGETS.into_iter().find(|(name, _)| *name == target) else {
        eprintln!("there is no target {target}");
        return ExitCode::from(2);
    };
    for file in files {
        println!("{file}");
        function(&std::fs::read(file).expect("the file can be read"));
    }
    ExitCode::SUCCESS
}
