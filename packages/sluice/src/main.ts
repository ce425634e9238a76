#!/usr/bin/env node
import { runCommand } from "@sluice/cli/run";

await runCommand(process.argv.slice(2));
