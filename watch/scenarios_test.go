package watch

import (
	"os"
	"syscall"
)

// scenario is one way to save, or to do something that looks like it. The file
// is conf/harness.toml, which holds "one", and the directory prompts, with a.md
// and b.md; setup may arrange them otherwise.
type scenario struct {
	name  string
	setup func(disk)
	do    func(disk)
	want  int
	after string // what to edit to see that it is still watched; "" is the file
}

const conf = "conf/harness.toml"

func fileScenarios() []scenario {
	return []scenario{
		{name: "write over it", want: 1, do: func(d disk) { d.write(conf, "two") }},
		{name: "append", want: 1, do: func(d disk) { d.open(conf, os.O_WRONLY|os.O_APPEND, "two") }},
		{name: "truncate and write in two parts", want: 1, do: func(d disk) {
			d.write(conf, "")
			d.pause(30 * ms)
			d.open(conf, os.O_WRONLY|os.O_APPEND, "tw")
			d.pause(30 * ms)
			d.open(conf, os.O_WRONLY|os.O_APPEND, "o")
		}},
		{name: "vim: rename away and write anew", want: 1, do: func(d disk) { vim(d, "two") }},
		{name: "vim: the same text", want: 0, do: func(d disk) { vim(d, "one") }},
		{name: "vim: backupcopy=yes", want: 1, do: func(d disk) {
			d.create("conf/.harness.toml.swp", "swap")
			d.create(conf+"~", "one")
			d.write(conf, "two")
			d.chmod(conf, 0o600)
			d.remove(conf + "~")
			d.remove("conf/.harness.toml.swp")
		}},
		{name: "emacs: lock link and backup", want: 1, do: func(d disk) {
			d.symlink("user@host.1:1", "conf/.#harness.toml")
			d.rename(conf, conf+"~")
			d.create(conf, "two")
			d.chmod(conf, 0o600)
			d.remove("conf/.#harness.toml")
		}},
		{name: "sed -i: write aside and rename", want: 1, do: func(d disk) {
			d.create("conf/sedA1b2C3", "two")
			d.chmod("conf/sedA1b2C3", 0o600)
			d.rename("conf/sedA1b2C3", conf)
		}},
		{name: "write aside in another directory and rename", want: 1, do: func(d disk) {
			d.create("aside", "two")
			d.rename("aside", conf)
		}},
		{name: "git checkout: unlink and create", want: 1, do: func(d disk) {
			d.remove(conf)
			d.create(conf, "two")
		}},
		{name: "remove and make again after a while", want: 1, do: func(d disk) {
			d.remove(conf)
			d.pause(50 * ms)
			d.create(conf, "two")
		}},
		{name: "away for a moment and back the same", want: 0, do: func(d disk) {
			d.rename(conf, conf+"~")
			d.pause(50 * ms)
			d.rename(conf+"~", conf)
		}},
		{name: "remove", want: 1, do: func(d disk) { d.remove(conf) }},
		{name: "chmod", want: 0, do: func(d disk) { d.chmod(conf, 0o640) }},
		{name: "touch", want: 0, do: func(d disk) { d.touch(conf) }},
		{name: "the same content", want: 0, do: func(d disk) { d.write(conf, "one") }},
		{name: "the same content by rename", want: 0, do: func(d disk) {
			d.create("conf/new", "one")
			d.rename("conf/new", conf)
		}},
		{name: "cat", want: 0, do: func(d disk) {
			_, err := os.ReadFile(d.path(conf))
			d.must(err)
		}},
		{name: "swap and backup files beside it", want: 0, do: func(d disk) {
			for _, name := range []string{".harness.toml.swp", "4913", "#harness.toml#", "harness.toml~"} {
				d.create("conf/"+name, name)
				d.remove("conf/" + name)
			}
		}},
		{
			name: "through another hard link in its directory", want: 1,
			setup: func(d disk) { d.link(conf, "conf/other") },
			do:    func(d disk) { d.write("conf/other", "two") },
		},
		{
			name: "a directory takes its place", want: 1,
			do:    func(d disk) { d.remove(conf); d.mkdir(conf) },
			after: "-",
		},
		{name: "a FIFO takes its place", want: 1, do: func(d disk) {
			d.remove(conf)
			d.must(syscall.Mkfifo(d.path(conf), 0o600))
		}, after: "-"},
	}
}

func vim(d disk, text string) {
	d.create("conf/.harness.toml.swp", "swap")
	d.create("conf/4913", "")
	d.remove("conf/4913")
	d.rename(conf, conf+"~")
	d.create(conf, text)
	d.chmod(conf, 0o600)
	d.remove(conf + "~")
	d.remove("conf/.harness.toml.swp")
}

func linkScenarios() []scenario {
	return []scenario{
		{
			name: "ln -sfn: another target by rename", want: 1,
			setup: func(d disk) { linked(d); d.create("dots/other", "two") },
			do: func(d disk) {
				d.symlink("../dots/other", "conf/harnessXYZ")
				d.rename("conf/harnessXYZ", conf)
			},
		},
		{
			name: "ln -sfn: a target of the same content", want: 0,
			setup: func(d disk) { linked(d); d.create("dots/other", "one") },
			do: func(d disk) {
				d.symlink("../dots/other", "conf/harnessXYZ")
				d.rename("conf/harnessXYZ", conf)
			},
		},
		{
			name: "edit the target in another directory", want: 1, setup: linked,
			do: func(d disk) { d.write("dots/real.toml", "two") },
		},
		{
			name: "replace the target in another directory", want: 1, setup: linked,
			do: func(d disk) {
				d.create("dots/.tmp", "two")
				d.rename("dots/.tmp", "dots/real.toml")
			},
		},
		{
			name: "a dangling link gets its target", want: 1,
			setup: func(d disk) { d.remove(conf); d.symlink("../later/on/real.toml", conf) },
			do: func(d disk) {
				d.mkdir("later/on")
				d.create("later/on/real.toml", "two")
			},
		},
		{name: "kubernetes: ..data swap", want: 1, setup: func(d disk) {
			d.mkdir("conf/..1")
			d.create("conf/..1/harness.toml", "one")
			d.symlink("..1", "conf/..data")
			d.remove(conf)
			d.symlink("..data/harness.toml", conf)
		}, do: func(d disk) {
			d.mkdir("conf/..2")
			d.create("conf/..2/harness.toml", "two")
			d.symlink("..2", "conf/..data_tmp")
			d.rename("conf/..data_tmp", "conf/..data")
			d.removeAll("conf/..1")
		}},
		{
			name: "chain of three links: the target", want: 1, setup: chained,
			do: func(d disk) { d.write("three/real", "two") },
		},
		{
			name: "chain of three links: the middle", want: 1, setup: chained,
			do: func(d disk) {
				d.mkdir("four")
				d.create("four/real", "two")
				d.symlink("../four/real", "one/new")
				d.rename("one/new", "one/next")
			},
		},
		{
			name: "stow: the folded directory appears", want: 1,
			setup: func(d disk) {
				d.rename("conf", "stow")
				d.write("stow/harness.toml", "two")
			},
			do: func(d disk) { d.symlink("stow", "conf") },
		},
		{
			name: "stow: the folded directory is swapped", want: 1,
			setup: func(d disk) {
				d.rename("conf", "stow")
				d.symlink("stow", "conf")
				d.mkdir("other")
				d.create("other/harness.toml", "two")
			},
			do: func(d disk) {
				d.symlink("other", "conf.tmp")
				d.rename("conf.tmp", "conf")
			},
		},
	}
}

// linked makes the file a link to one in another directory.
func linked(d disk) {
	d.mkdir("dots")
	d.rename(conf, "dots/real.toml")
	d.symlink("../dots/real.toml", conf)
}

// chained puts the file behind three links in three directories.
func chained(d disk) {
	for _, dir := range []string{"one", "two", "three"} {
		d.mkdir(dir)
	}
	d.rename(conf, "three/real")
	d.symlink("../three/real", "two/next")
	d.symlink("../two/next", "one/next")
	d.symlink(d.path("one/next"), conf)
}

func treeScenarios() []scenario {
	return []scenario{
		{
			name: "the directory is swapped", want: 1,
			setup: func(d disk) { d.mkdir("new"); d.create("new/harness.toml", "two") },
			do:    func(d disk) { d.rename("conf", "old"); d.rename("new", "conf") },
		},
		{
			name: "the directory is swapped for the same", want: 0,
			setup: func(d disk) { d.mkdir("new"); d.create("new/harness.toml", "one") },
			do:    func(d disk) { d.rename("conf", "old"); d.rename("new", "conf") },
		},
		{
			name: "the directory is removed and made again", want: 1,
			do: func(d disk) { d.removeAll("conf"); d.mkdir("conf"); d.create(conf, "two") },
		},
		{
			name: "the directory comes later", want: 1,
			setup: func(d disk) { d.removeAll("conf") },
			do:    func(d disk) { d.mkdir("conf"); d.pause(30 * ms); d.create(conf, "two") },
		},
		{
			name: "the directory is renamed away", want: 1,
			do: func(d disk) { d.rename("conf", "gone") }, after: "-",
		},
		{
			name: "the directory is renamed away and back", want: 0,
			do: func(d disk) { d.rename("conf", "gone"); d.pause(50 * ms); d.rename("gone", "conf") },
		},
		{
			name: "the directory above is renamed and replaced", want: 1,
			setup: func(d disk) { deep(d) },
			do: func(d disk) {
				d.rename("top", "was")
				d.mkdir("top/conf")
				d.create("top/"+conf, "two")
			},
		},
		{
			name: "a tree comes later", want: 1,
			setup: func(d disk) { deep(d); d.removeAll("top") },
			do: func(d disk) {
				d.mkdir("top")
				d.pause(30 * ms)
				d.mkdir("top/conf")
				d.pause(30 * ms)
				d.create("top/"+conf, "two")
			},
		},
	}
}

// deep puts the directory into another one.
func deep(d disk) {
	d.mkdir("top")
	d.rename("conf", "top/conf")
	d.symlink("top/conf", "conf")
}

func promptScenarios() []scenario {
	return []scenario{
		{name: "a new entry", want: 1, after: "prompts/c.md", do: func(d disk) { d.create("prompts/c.md", "new") }},
		{name: "an edited entry", want: 1, after: "prompts/a.md", do: func(d disk) { d.write("prompts/a.md", "new") }},
		{name: "a removed entry", want: 1, after: "prompts/a.md", do: func(d disk) { d.remove("prompts/a.md") }},
		{name: "a renamed entry", want: 1, after: "prompts/c.md", do: func(d disk) { d.rename("prompts/a.md", "prompts/c.md") }},
		{name: "an entry replaced by rename", want: 1, after: "prompts/a.md", do: func(d disk) {
			d.create("prompts/.a.md.tmp", "new")
			d.rename("prompts/.a.md.tmp", "prompts/a.md")
		}},
		{name: "entries that do not count", want: 0, after: "prompts/a.md", do: func(d disk) {
			d.create("prompts/notes.txt", "new")
			d.symlink("user@host.1:1", "prompts/.#a.md")
			d.create("prompts/a.md~", "one")
		}},
		{name: "git checkout: many entries", want: 1, after: "prompts/b.md", do: func(d disk) {
			d.remove("prompts/a.md")
			d.create("prompts/a.md", "new")
			d.remove("prompts/b.md")
			d.create("prompts/c.md", "new")
		}},
		{
			name: "the target of a linked entry", want: 1, after: "elsewhere/l.md",
			setup: func(d disk) {
				d.mkdir("elsewhere")
				d.create("elsewhere/l.md", "one")
				d.symlink("../elsewhere/l.md", "prompts/l.md")
			},
			do: func(d disk) { d.write("elsewhere/l.md", "new") },
		},
		{name: "a FIFO among them is noted, not opened", want: 1, after: "prompts/a.md", do: func(d disk) {
			d.must(syscall.Mkfifo(d.path("prompts/pipe.md"), 0o600))
		}},
		{
			name: "the prompt directory comes later", want: 1, after: "prompts/a.md",
			setup: func(d disk) { d.removeAll("prompts") },
			do: func(d disk) {
				d.mkdir("prompts")
				d.create("prompts/a.md", "one")
			},
		},
		{
			name: "the prompt directory is replaced", want: 1, after: "prompts/n.md",
			setup: func(d disk) { d.mkdir("new"); d.create("new/n.md", "one") },
			do:    func(d disk) { d.rename("prompts", "old"); d.rename("new", "prompts") },
		},
		{
			name: "the prompt directory is renamed away and back", want: 0, after: "prompts/a.md",
			do: func(d disk) { d.rename("prompts", "away"); d.pause(50 * ms); d.rename("away", "prompts") },
		},
		{name: "the prompt directory goes", want: 1, after: "-", do: func(d disk) { d.removeAll("prompts") }},
		{name: "file and prompts together", want: 1, after: "prompts/a.md", do: func(d disk) {
			d.write(conf, "two")
			d.write("prompts/a.md", "new")
			d.write("prompts/b.md", "new")
		}},
	}
}
