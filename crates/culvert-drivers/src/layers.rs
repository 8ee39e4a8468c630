//! Layers over the driver of a mount, and how a mount's options name them.
//!
//! ```text
//! layer=NAME               stack layer NAME over what there is so far: the first one lies on the driver, the last one on top
//! NAME.OPTION[=VALUE]      option OPTION of the last layer NAME named before
//! ```
//!
//! Every other option is the driver's, also one with a dot, where the driver has such. So
//! `ro,layer=a,a.x=1,layer=b,layer=a,a.x=2` is a driver with option `ro`, under layer `a` with
//! `x=1`, under layer `b`, under layer `a` again with `x=2`.

use crate::registry::{self, check_names_of, unknown};
use crate::{
    DriverInfo, Environment, Prepared, Progress, avfs, bind, casefold, fault, log, sdcard, trace,
};
use alloc::{boxed::Box, format, vec::Vec};
use culvert::{
    Errno, Error, FileSystem, Result,
    mount::{Mount, Options},
};

/// Puts a layer over a file system, in every process.
type OpenLayer = fn(&Options, &Environment<'_>, Box<dyn FileSystem>) -> Result<Box<dyn FileSystem>>;

/// A layer that comes with Culvert.
struct Layer {
    info: DriverInfo,
    /// Checks options in the launcher, and returns them as they are to travel.
    prepare: fn(Options, &Environment<'_>) -> Result<Options>,
    open: OpenLayer,
}

/// The layers of these modules.
macro_rules! layers {
    ($($module:ident,)*) => {
        const LAYERS: &[Layer] = &[$(Layer {
            info: $module::INFO,
            prepare: $module::prepare,
            open: $module::open,
        },)*];
    };
}

layers! {
    avfs,
    bind,
    casefold,
    fault,
    log,
    sdcard,
    trace,
}

/// Whether a layer with these options touches nothing.
type TouchesNothing = fn(&Options) -> bool;

/// Layers that touch nothing with some options ([`culvert::Layer::touches`]), and whether it is
/// these: they are left out.
const IDLE: &[(&str, TouchesNothing)] = &[
    ("fault", fault::touches_nothing),
    ("log", log::touches_nothing),
];

fn is_idle(layer: &Layer, options: &Options) -> bool {
    let mut known = IDLE.iter();
    known.any(|(name, idle)| *name == layer.info.name && idle(options))
}

/// Whether no layer of `mount`, which was prepared, touches anything: the mount is its driver's.
pub fn touch_nothing(mount: &Mount) -> bool {
    mount.option("layer").is_none()
        || Stack::of(mount).is_ok_and(|stack| {
            let mut layers = stack.layers.iter();
            layers.all(|(layer, options)| is_idle(layer, options))
        })
}

/// All layers.
pub fn list() -> impl ExactSizeIterator<Item = &'static DriverInfo> + Clone {
    LAYERS.iter().map(|layer| &layer.info)
}

/// The layer called `name`; `ENODEV` with the names that there are.
pub fn find(name: &str) -> Result<&'static DriverInfo> {
    layer(name.as_bytes()).map(|layer| &layer.info)
}

fn layer(name: &[u8]) -> Result<&'static Layer> {
    let found = LAYERS
        .iter()
        .find(|layer| layer.info.name.as_bytes() == name);
    found.ok_or_else(|| unknown("layer", name, list()))
}

/// A mount, taken apart: what is the driver's, and the layers over it, the lowest one first.
struct Stack {
    driver: Mount,
    layers: Vec<(&'static Layer, Options)>,
}

/// Whether the driver called `driver` has the option `name`.
fn has_option(driver: &str, name: &str) -> bool {
    registry::find(driver).is_ok_and(|info| info.options.has(name))
}

impl Stack {
    fn of(mount: &Mount) -> Result<Self> {
        let mut stack = Self {
            driver: Mount {
                options: Options::new(),
                ..mount.clone()
            },
            layers: Vec::new(),
        };
        for (name, value) in &mount.options {
            if name == "layer" {
                stack.layers.push((layer(value)?, Options::new()));
            } else if name == avfs::INFO.name && has_option(&mount.driver, name) {
                stack.layers.insert(0, (layer(b"avfs")?, Options::new()));
            } else if registry::has_kin(&mount.driver, name) {
                stack.driver.options.push((name.clone(), value.clone()));
            } else if let Some((prefix, option)) = name.split_once('.') {
                let mut above = stack.layers.iter_mut();
                let Some((_, own)) = above.rfind(|(layer, _)| layer.info.name == prefix) else {
                    // The prefix may be misspelt, or the layer left out.
                    let known = layer(prefix.as_bytes())?.info.name;
                    return Err(Error::because(
                        Errno::EINVAL,
                        format!("option {name}: no layer={known} stands before it"),
                    ));
                };
                own.push((option.into(), value.clone()));
            } else {
                stack.driver.options.push((name.clone(), value.clone()));
            }
        }
        for (layer, options) in &stack.layers {
            let owner = format!("layer {}", layer.info.name);
            check_names_of(&owner, layer.info.options, options)?;
        }
        Ok(stack)
    }
}

/// Checks `mount` and makes it ready, in the launcher; `progress` is told how far the costly part
/// is.
pub fn prepare(
    mount: &Mount,
    environment: &Environment<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Prepared> {
    let Stack { driver, layers } = Stack::of(mount)?;
    let mut travelling = Options::new();
    for (layer, options) in layers {
        let name = layer.info.name;
        travelling.push(("layer".into(), name.into()));
        let prepared = (layer.prepare)(options, environment);
        for (option, value) in prepared.map_err(|error| within(layer, error))? {
            travelling.push((format!("{name}.{option}"), value));
        }
    }
    let mut prepared = registry::prepare(&driver, environment, progress)?;
    prepared.mount.options.extend(travelling);
    Ok(prepared)
}

/// The file system of a mount that [`prepare`] returned, with its layers. Cheap: a few system
/// calls.
pub fn open(mount: &Mount, environment: &Environment<'_>) -> Result<Box<dyn FileSystem>> {
    let Stack {
        mut driver,
        mut layers,
    } = Stack::of(mount)?;
    layers.retain(|(layer, options)| !is_idle(layer, options));
    if !layers.is_empty()
        && let Some(change) = registry::declared(&driver).and_then(|one| one.below_layers)
    {
        change(&mut driver);
    }
    let lowest = registry::open(&driver, environment)?;
    layers
        .into_iter()
        .try_fold(lowest, |below, (layer, options)| {
            let opened = (layer.open)(&options, environment, below);
            opened.map_err(|error| within(layer, error))
        })
}

fn within(layer: &Layer, error: Error) -> Error {
    error.within(&format!("layer {}", layer.info.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::warning::printable;
    use culvert::mount::parse_volume;
    use std::string::{String, ToString};

    fn stack(options: &str) -> Result<Stack> {
        let text = format!("/a:/b:{options}");
        Stack::of(&parse_volume(text.as_bytes()).unwrap().into_mount("archive"))
    }

    #[test]
    fn options_belong_to_the_last_layer_of_their_name() {
        let stack = stack("ro,layer=fault,fault.seed=1,umask=7,layer=fault,fault.seed=2").unwrap();
        let plain = |options: &Options| -> Vec<String> {
            let one = |(name, value): &(String, Vec<u8>)| format!("{name}={}", printable(value));
            options.iter().map(one).collect()
        };
        assert_eq!(plain(&stack.driver.options), ["ro=", "umask=7"]);
        let layers: Vec<_> = stack.layers.iter().map(|(_, own)| plain(own)).collect();
        assert_eq!(layers, [["seed=1"], ["seed=2"]]);
    }

    #[test]
    fn options_with_a_dot_are_the_drivers_where_it_has_such() {
        let text = b"/a:/b:/c:type=last,layer=fault,which.one=1,which.two,fault.seed=2";
        let stack = Stack::of(&parse_volume(text).unwrap().into_mount("")).unwrap();
        let names = |options: &Options| options.iter().map(|(name, _)| name.clone()).collect();
        let both: [Vec<String>; 2] = [names(&stack.driver.options), names(&stack.layers[0].1)];
        assert_eq!(both, [&["which.one", "which.two"][..], &["seed"]]);
    }

    #[test]
    fn errors_name_the_layer() {
        let mount = parse_volume(b"/:/mnt:layer=fault,fault.seed=x").unwrap();
        let error = prepare(
            &mount.into_mount("passthrough"),
            &Environment::default(),
            &mut |_| (),
        );
        let said = error.unwrap_err().to_string();
        assert!(
            said.starts_with("layer fault: option fault.seed=x"),
            "{said}"
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (options, want) in [
            (
                "layer=fualt",
                "there is no layer \"fualt\"; did you mean fault? There are: avfs, bind, casefold, \
                fault, log, sdcard, trace",
            ),
            (
                "layer",
                "there is no layer \"\"; there are: avfs, bind, casefold, fault, log, sdcard, trace",
            ),
            (
                "fault.seed=1,layer=fault",
                "option fault.seed: no layer=fault stands before it",
            ),
            (
                "layer=fault,falt.seed=1",
                "there is no layer \"falt\"; did you mean fault? There are: avfs, bind, casefold, \
                fault, log, sdcard, trace",
            ),
            (
                "layer=fault,fault.sed=1",
                "layer fault has no option \"sed\"; did you mean seed? There are: rule, seed, \
                count",
            ),
        ] {
            let Err(error) = stack(options) else {
                panic!("{options} is accepted")
            };
            assert_eq!(error.to_string(), want, "{options}");
        }
    }
}
