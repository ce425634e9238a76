import type { Command } from "commander";
import type { AuditVerifyOptions } from "./audit-command.ts";
import type { CommandParts } from "./server-commands.ts";

/** Adds the commands for files that an operator keeps: audit files and keys. */
export function addOperatorCommands(
  program: Command,
  { load, signal }: Pick<CommandParts, "load"> & { readonly signal: AbortSignal },
): void {
  program
    .command("audit")
    .description("work with the audit files of `sluice serve`")
    .command("verify")
    .description(
      "check that no line was altered, removed, reordered or cut off, and print the head",
    )
    .argument("<files...>", "audit files, oldest first")
    .option("--head <head>", "head that an earlier run printed")
    .action(async (files: string[], options: Omit<AuditVerifyOptions, "signal">) => {
      const { auditVerifyCommand } = await load(import("./audit-command.ts"));
      await auditVerifyCommand(files, { ...options, signal });
    });

  const keys = program
    .command("keys")
    .description("make and rotate the keys that seal download URLs: `sluice serve --keys`");
  const keysCode = () => load(import("./keys-command.ts"));
  keys
    .command("new")
    .description("create a key file that only its owner can read")
    .argument("<file>", "file to make")
    .action(async (file: string) => (await keysCode()).newKeysCommand(file));
  keys
    .command("list")
    .description("print the name and state of each key, never a key")
    .argument("<file>", "file of keys")
    .action(async (file: string) => (await keysCode()).listKeysCommand(file));
  keys
    .command("rotate")
    .description("take one step: publish a new key, seal with it, or retire the old one")
    .argument("<file>", "file of keys")
    .action(async (file: string) => (await keysCode()).rotateKeysCommand(file));
  keys
    .command("drop")
    .description("refuse everything that a key sealed, at once")
    .argument("<file>", "file of keys")
    .argument("<name>", "name of the key, as `sluice keys list` prints it")
    .action(async (file: string, name: string) => (await keysCode()).dropKeyCommand(file, name));
}
