import { extensionOf } from "@sluice/core/internal";
import other from "mime/types/other.js";
import standard from "mime/types/standard.js";

/** What a name says about content. */
export interface NamedType {
  /** Type of the content where it is text. */
  readonly text?: string;
  /** Type of the content where it is not text. */
  readonly binary?: string;
}

/**
 * What the last segment of a key says about the content; empty for an unknown name. The two types differ where one
 * extension has two meanings: `.ts` is TypeScript, or an MPEG transport stream.
 */
export function typeOfName(key: string): NamedType {
  const name = key.slice(key.lastIndexOf("/") + 1).toLowerCase();
  const extension = extensionOf(name);
  const text = extensions.get(extension);
  const registered = registeredType(extension);
  if (text !== undefined)
    return { text, binary: twofold.has(extension) ? (registered ?? octets) : text };
  if (registered !== undefined) return { text: registered, binary: registered };
  const stem = name.includes(".", 1) ? name.slice(0, name.indexOf(".", 1)) : name;
  const whole = wholeNames.get(stem);
  return whole === undefined ? {} : { text: whole, binary: whole };
}

const octets = "application/octet-stream";

let registeredTypes: ReadonlyMap<string, string> | undefined;

/** The type that mime-db has for an extension. Its table is made at the first use: a server starts without. */
export function registeredType(extension: string): string | undefined {
  registeredTypes ??= new Map(
    [...Object.entries(standard), ...Object.entries(other)].flatMap(([type, names]) =>
      // a star marks an extension whose type is another one
      names.filter((name) => !name.startsWith("*")).map((name): [string, string] => [name, type]),
    ),
  );
  return registeredTypes.get(extension);
}

/** Extensions of text that are also those of a binary format. */
const twofold: ReadonlySet<string> = new Set("dot key mod mts plist pot pub tpl ts vhd".split(" "));

/** Extensions of text that `mime` does not know, or takes for something seldom (`.rs`, `.bat`). */
const extensions: ReadonlyMap<string, string> = toMap({
  "text/plain":
    "am asc bats cfg cnf conf env err example feature inc lock lst mod out pub rc rej rego " +
    "robot sample snap sum template tmpl todo tpl",
  "text/css": "pcss postcss",
  "text/jsx": "jsx",
  "text/javascript": "cjs",
  "text/markdown": "mdown mkd qmd rmd",
  "text/org": "org",
  "text/tsx": "tsx",
  "text/typescript": "cts mts ts",
  "text/vnd.graphviz": "dot",
  "text/x-asciidoc": "adoc asciidoc",
  "text/x-awk": "awk",
  "text/x-bibtex": "bib",
  "text/x-c": "cu ino",
  "text/x-c++": "hpp hxx ipp",
  "text/x-clojure": "clj cljc cljs edn",
  "text/x-cmake": "cmake",
  "text/x-common-lisp": "el lisp",
  "text/x-crystal": "cr",
  "text/x-csharp": "cs csx",
  "text/x-d": "d",
  "text/x-dart": "dart",
  "text/x-diff": "diff patch",
  "text/x-elixir": "ex exs",
  "text/x-elm": "elm",
  "text/x-erlang": "erl hrl",
  "text/x-fsharp": "fs fsi fsx",
  "text/x-gettext-translation": "po pot",
  "text/x-go": "go",
  "text/x-gradle": "gradle",
  "text/x-graphql": "gql graphql graphqls",
  "text/x-groovy": "groovy",
  "text/x-haskell": "hs",
  "text/x-hcl": "hcl tf tfvars",
  "text/x-ini": "desktop properties service socket timer",
  "text/x-jinja": "j2 jinja jinja2 njk",
  "text/x-jsonnet": "jsonnet libsonnet",
  "text/x-julia": "jl",
  "text/x-kotlin": "kt kts",
  "text/x-makefile": "mak mk",
  "text/x-matlab": "m",
  "text/x-msdos-batch": "bat cmd",
  "text/x-nim": "nim",
  "text/x-nix": "nix",
  "text/x-objc++src": "mm",
  "text/x-ocaml": "ml mli",
  "text/x-perl": "pl pm",
  "text/x-php": "php",
  "text/x-plantuml": "plantuml puml",
  "text/x-powershell": "ps1 psm1",
  "text/x-prisma": "prisma",
  "text/x-protobuf": "proto",
  "text/x-pug": "pug",
  "text/x-python": "bzl py pyi",
  "text/x-r": "r",
  "text/x-racket": "rkt",
  "text/x-rst": "rst",
  "text/x-ruby": "erb gemspec rake rb",
  "text/x-rust": "rs",
  "text/x-scala": "sbt scala",
  "text/x-scheme": "scm",
  "text/x-shellscript": "bash fish ksh sh zsh",
  "text/x-solidity": "sol",
  "text/x-subrip": "srt",
  "text/x-svelte": "svelte",
  "text/x-swift": "swift",
  "text/x-systemverilog": "sv svh",
  "text/x-tcl": "tcl",
  "text/x-template": "astro ejs haml liquid mustache twig",
  "text/x-tex": "cls ltx sty tex",
  "text/x-thrift": "thrift",
  "text/x-vb": "vb vbs",
  "text/x-verilog": "v",
  "text/x-vhdl": "vhd vhdl",
  "text/x-vim": "vim",
  "text/x-vue": "vue",
  "text/x-zig": "zig",
  "application/json": "avsc har jsonc",
  "application/x-ndjson": "jsonl ndjson",
  "application/xml": "csproj fsproj nuspec plist props resx storyboard targets vcxproj xib",
});

/** Names that say text without an extension, and with one that says nothing: `Dockerfile.dev`, `.env.local`. */
const wholeNames: ReadonlyMap<string, string> = toMap({
  "text/plain":
    ".dockerignore .env .eslintignore .gitattributes .gitignore .gitmodules .htaccess " +
    ".mailmap .npmignore .npmrc .nvmrc .prettierignore authors changelog changes codeowners " +
    "contributing contributors copying install licence license maintainers news notice " +
    "procfile readme todo version",
  "text/x-dockerfile": "containerfile dockerfile",
  "text/x-groovy": "jenkinsfile",
  "text/x-ini": ".editorconfig .gitconfig",
  "text/x-makefile": "gnumakefile justfile makefile",
  "text/x-ruby": "brewfile gemfile podfile rakefile vagrantfile",
  "text/x-shellscript": ".bash_profile .bashrc .envrc .profile .zshrc",
  "text/x-vim": ".vimrc",
});

function toMap(names: Readonly<Record<string, string>>): ReadonlyMap<string, string> {
  const pairs = Object.entries(names).flatMap(([type, list]) =>
    list.split(" ").map((name): [string, string] => [name, type]),
  );
  return new Map(pairs);
}
