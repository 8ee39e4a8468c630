package org.culvert;

import java.io.File;
import java.io.IOException;
import java.net.URI;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.LinkedHashSet;
import java.util.Set;
import java.util.jar.Attributes;
import java.util.jar.JarFile;
import java.util.jar.Manifest;

/**
 * Where an author's classes are looked for. Root takes only what nobody else may write, nor rename
 * what is above it: of a jar and those of its Class-Path when the mount begins, of a file in a
 * directory at the moment at which its class is loaded. Where there is no file, nobody else may
 * make one.
 */
final class ClassPath extends URLClassLoader {
    private static final int S_IFMT = 0170000;
    private static final int STICKY = 01000;
    private static final int WRITABLE = 022;

    private final Path[] directories;

    private ClassPath(URL[] places, Path[] directories) {
        super(places, ClassPath.class.getClassLoader());
        this.directories = directories;
    }

    /** Of {@code path}, entries separated by colons; null: only what is here. */
    static ClassPath of(String path) throws Exception {
        Set<Path> found = new LinkedHashSet<>();
        for (String entry : (path == null ? "" : path).split(File.pathSeparator)) {
            if (!entry.isEmpty()) {
                try {
                    add(Path.of(entry), found);
                } catch (SecurityException error) {
                    throw new Host.Refused(error.getMessage());
                }
            }
        }
        URL[] places = new URL[found.size()];
        int at = 0;
        for (Path each : found) {
            places[at++] = each.toUri().toURL();
        }
        return new ClassPath(places, found.stream().filter(Files::isDirectory).toArray(Path[]::new));
    }

    /** Adds a place, and those that a jar names besides. */
    private static void add(Path place, Set<Path> found) throws Exception {
        if (!Files.exists(place)) {
            throw new Host.Refused("classpath: " + place + " is not there");
        }
        Path closed = closed(place);
        if (!found.add(closed) || Files.isDirectory(closed)) {
            return;
        }
        try (JarFile jar = new JarFile(closed.toFile(), false)) {
            Manifest manifest = jar.getManifest();
            String more = manifest == null ? null
                : manifest.getMainAttributes().getValue(Attributes.Name.CLASS_PATH);
            for (String each : (more == null ? "" : more).split(" ")) {
                URI named = closed.toUri().resolve(each);
                if (!each.isEmpty() && "file".equalsIgnoreCase(named.getScheme())) {
                    addNamed(Path.of(named), found);
                }
            }
        } catch (IOException error) {
            throw new Host.Refused("classpath: " + place + " is no jar: " + error.getMessage());
        } catch (IllegalArgumentException error) {
            throw new Host.Refused("classpath: Class-Path of " + place + ": " + error.getMessage());
        }
    }

    /** Adds what a jar names: the loader goes there by this name, through links, if it is there. */
    private static void addNamed(Path place, Set<Path> found) throws Exception {
        Path there = place.toAbsolutePath().normalize();
        if (isRoot()) {
            Path nearest = nearest(there);
            if (!closed(nearest).equals(nearest)) {
                throw new Host.Refused("classpath: " + nearest + " leads through a link, and root"
                    + " takes none in a Class-Path");
            }
        }
        if (Files.exists(there)) {
            add(there, found);
        }
    }

    /** {@code place}, or where it would be made. */
    private static Path nearest(Path place) {
        Path found = place;
        while (!Files.exists(found, LinkOption.NOFOLLOW_LINKS)) {
            found = found.getParent();
        }
        return found;
    }

    @Override
    protected Class<?> findClass(String name) throws ClassNotFoundException {
        String file = name.replace('.', '/') + ".class";
        for (Path directory : directories) {
            try {
                closed(nearest(directory.resolve(file)));
            } catch (IOException error) {
                throw new ClassNotFoundException(name, error);
            }
        }
        return super.findClass(name);
    }

    /** {@code place} without links, if nobody else than root may write it, for root. */
    private static Path closed(Path place) throws IOException {
        Path found = place.toRealPath();
        if (!isRoot()) {
            return found;
        }
        for (Path each = found; each != null; each = each.getParent()) {
            int mode = (int) Files.getAttribute(each, "unix:mode");
            boolean directory = (mode & S_IFMT) == Stat.S_IFDIR;
            // In a sticky directory nobody renames others' files.
            boolean sticky = each != found && (mode & STICKY) != 0;
            if (!directory && (mode & S_IFMT) != Stat.S_IFREG) {
                throw new SecurityException("classpath: " + each + " is no file");
            }
            if (owner(each) != 0 || (mode & WRITABLE) != 0 && !sticky) {
                throw new SecurityException("classpath: others than root may write " + each
                    + ", and root executes no code from there");
            }
        }
        return found;
    }

    private static boolean isRoot() throws IOException {
        return owner(Path.of("/proc/self")) == 0;
    }

    private static int owner(Path path) throws IOException {
        return (int) Files.getAttribute(path, "unix:uid");
    }
}
