package org.culvert;

/** Takes the names of a directory, one after the other. */
public interface Directory {
    /**
     * A name.
     *
     * @param name without a slash; "." and ".." are left out
     * @param type {@link Stat#S_IFREG} and the others
     * @param inode as {@link FileSystem#getattr} reports it; 0 where it reports none
     */
    void add(String name, int type, long inode);

    /**
     * A name of a file whose inode is not reported.
     *
     * @param name without a slash; "." and ".." are left out
     * @param type {@link Stat#S_IFREG} and the others
     */
    default void add(String name, int type) {
        add(name, type, 0);
    }
}
