//! Mounts whose branches are listed by options: an overlay's layers.

use crate::{
    failure::{Failure, path, reason, shown},
    mounts::branches_of,
    oci,
};
use culvert::mount::{Mount, Request};
use std::fs;

/// The mount at `target` that `request` asks for, whose branches options list, the last one of each
/// name.
pub fn listed(
    mut request: Request,
    target: Vec<u8>,
    (lists, paths): (&[&str], &[&str]),
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
        let (some, modes) = branches_of(&several, &target, &expanded)?;
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
