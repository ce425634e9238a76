#!/usr/bin/env node
import { runCommand } from "./commands/run.ts";

await runCommand(process.argv.slice(2));
