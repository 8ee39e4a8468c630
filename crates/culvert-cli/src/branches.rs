//! Branches of mounts: those that sources name, and those that options list (an overlay's layers).

use crate::{
    failure::{Failure, path, reason, shown},
    oci,
};
use culvert::mount::{Mount, Request};
use culvert_drivers::Source;
use std::fs;

/// The sources that one in a list stands for.
pub type Expanded<'a> = dyn Fn(&[u8]) -> Result<Vec<Vec<u8>>, Failure> + 'a;

/// What a request asks for at a target.
pub type Served<'a> = dyn Fn(Request, Vec<u8>) -> Result<Mount, Failure> + 'a;

/// The branches that the sources of `request` name, of which each may be several, and what stands
/// behind `=` of each.
pub fn of(
    request: &Request,
    target: &[u8],
    expanded: &Expanded<'_>,
    served: &Served<'_>,
) -> Result<(Vec<Mount>, Vec<Vec<u8>>), Failure> {
    let wrong = |error: culvert::Error| Failure::new(error.to_string());
    let (mut branches, mut modes) = (Vec::new(), Vec::new());
    for typed in request.branches().map_err(wrong)? {
        let is_told = typed.mount.is_some();
        let asked = match typed.mount {
            Some(mount) => mount,
            None => Request::new(None, &typed.source, target, Vec::new()).map_err(wrong)?,
        };
        let sources = match is_path(&asked) {
            true => expanded(&asked.source)?,
            false => vec![asked.source.clone()],
        };
        for source in sources {
            let name = shown(path(&source));
            let asked = Request {
                source,
                ..asked.clone()
            };
            let mut branch = served(asked, target.to_vec()).map_err(|failure| match is_told {
                true => failure.within(&format!("branch {name}")),
                false => failure,
            })?;
            if culvert_drivers::fuse::is_served(&branch.driver) {
                let why = format!(
                    "branch {name}: the server of type {} has a mount of its own",
                    branch.driver
                );
                return Err(Failure::new(why)
                    .advice("mount it by culvert mount, and name that directory as the branch"));
            }
            if branch.source == branch.driver.as_bytes() && !branch.branches.is_empty() {
                // Layers that options list: two of one type are not the same.
                let layers: Vec<_> = branch.branches.iter().map(|one| &one.source[..]).collect();
                branch.source = layers.join(&b':');
            }
            branches.push(branch);
            modes.push(typed.how.clone());
        }
    }
    Ok((branches, modes))
}

/// Whether the source of `asked` is a path, which may be a pattern.
fn is_path(asked: &Request) -> bool {
    let of = |declared: &culvert_drivers::Declared| {
        let kind = declared.source;
        matches!(kind, Source::Directory | Source::File(_) | Source::Path)
    };
    let serves = |driver| culvert_drivers::declared_by(driver).is_some_and(of);
    asked.more_sources.is_empty() && asked.driver.as_deref().is_none_or(serves)
}

/// The mount at `target` that `request` asks for, whose branches options list, the last one of each
/// name.
pub fn listed(
    mut request: Request,
    target: Vec<u8>,
    (lists, paths): (&[&str], &[&str]),
    served: &Served<'_>,
) -> Result<Mount, Failure> {
    let wrong = |name: &str, why: String| Failure::new(format!("option {name}: {why}"));
    let mut branches = Vec::new();
    let reads_images = request.option("oci") != Some(b"no");
    let image = request.option("image");
    let image = image.map(|name| String::from_utf8_lossy(name).into_owned());
    for name in lists {
        let Some(list) = request.option(name).map(<[u8]>::to_vec) else {
            continue;
        };
        let several = Request::new(None, &list, &target, Vec::new());
        let several = several.map_err(|error| wrong(name, error.to_string()))?;
        let is_lower = Some(name) == lists.last();
        let expanded = |source: &[u8]| match is_lower && reads_images {
            true => layers(source, image.as_deref()),
            false => Ok(vec![source.to_vec()]),
        };
        let (some, modes) = of(&several, &target, &expanded, served)?;
        if modes.iter().any(|mode| !mode.is_empty()) {
            let why = "an = in the name of a layer is written \\=".to_owned();
            return Err(wrong(name, why));
        }
        if *name == lists[0] && lists.len() > 1 && some.len() > 1 {
            return Err(wrong(name, "more than one".to_owned()));
        }
        branches.extend(some);
    }
    for (name, value) in &mut request.options {
        if paths.contains(&name.as_str()) {
            let found = fs::canonicalize(path(value)).map_err(|error| {
                wrong(name, format!("{}: {}", shown(path(value)), reason(&error)))
            })?;
            *value = found.into_os_string().into_encoded_bytes();
        }
    }
    request.target = target;
    Ok(Mount {
        branches,
        ..request.into_mount("")
    })
}

/// What a lower layer is: those of the image called `image`, where `source` is an image layout.
fn layers(source: &[u8], image: Option<&str>) -> Result<Vec<Vec<u8>>, Failure> {
    let place = path(source);
    if !oci::is_layout(place) {
        return Ok(vec![source.to_vec()]);
    }
    let layers = oci::layers(place, image)?.into_iter();
    Ok(layers
        .map(|layer| layer.into_os_string().into_encoded_bytes())
        .collect())
}
