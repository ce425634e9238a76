#!/usr/bin/env node
import { run } from "@sluice/cli/internal/run";

await run(process.argv.slice(2));
