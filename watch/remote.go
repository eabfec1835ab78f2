package watch

import "golang.org/x/sys/unix"

// remote reports whether dir is on a file system where others can change a file
// without inotify telling: the network and FUSE ones, which accept a watch all
// the same. What cannot be asked is not remote: to add a watch will fail there.
func remote(dir string) bool {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return false
	}
	return isRemote(uint32(st.Type))
}

// isRemote knows file systems by their magic number; it is 32 bits wide
// whatever the width and sign of the field it is handed over in.
func isRemote(magic uint32) bool {
	switch magic {
	case unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC,
		unix.V9FS_MAGIC, unix.FUSE_SUPER_MAGIC, unix.AFS_FS_MAGIC, unix.AFS_SUPER_MAGIC,
		unix.CEPH_SUPER_MAGIC, unix.CODA_SUPER_MAGIC, unix.NCP_SUPER_MAGIC, unix.OCFS2_SUPER_MAGIC:
		return true
	case 0x786f4256, // vboxsf
		0x7c7c6673, // Parallels shared folders
		0xbacbacbc, // VMware shared folders
		0x0bd00bd0, // Lustre
		0x47504653, // GPFS
		0x01161970: // GFS2
		return true
	}
	return false
}
