//! What /proc/PID/mountinfo says of a file system.

/// Whether each mount of the file system `device` is nosuid and nodev; none: there is no mount of
/// it, or a line is not understood.
pub fn are_harmless(mountinfo: &str, device: (u32, u32)) -> Option<bool> {
    let (mut found, mut harmless) = (false, true);
    for line in mountinfo.lines() {
        // Number, parent, device, root, place, options of the mount; blanks in names are octal.
        let mut fields = line.split(' ').skip(2);
        let (major, minor) = fields.next()?.split_once(':')?;
        let options = fields.nth(2)?;
        if (major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?) != device {
            continue;
        }
        let has = |wanted| options.split(',').any(|option| option == wanted);
        found = true;
        harmless &= has("nosuid") && has("nodev");
    }
    found.then_some(harmless)
}

#[cfg(test)]
mod tests {
    use super::are_harmless;

    #[test]
    fn all_mounts_of_the_file_system_count() {
        let lines = "\
21 1 0:20 / / rw,relatime shared:1 - ext4 /dev/a rw
30 21 0:45 / /home/a\\040nosuid,nodev rw,nosuid,nodev,relatime - fuse.culvert s rw,user_id=7
31 21 0:46 / /home/b rw,nosuid,relatime - fuse.culvert s rw,user_id=7
32 21 0:47 / /home/c rw,nodev,nosuid - fuse.culvert s rw
33 21 0:47 / /home/nosuid,nodev rw,xnosuid,nodev - fuse.culvert s rw
";
        let answers = [45, 46, 47, 48].map(|minor| are_harmless(lines, (0, minor)));
        assert_eq!(answers, [Some(true), Some(false), Some(false), None]);
        assert_eq!(are_harmless("", (0, 45)), None);
        assert_eq!(are_harmless("30 21 0:45 /\n", (0, 45)), None);
    }
}
