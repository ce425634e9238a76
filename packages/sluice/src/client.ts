// the package chooses by export condition: Node's own HTTP client and saving in Node, portable code elsewhere
export * from "@sluice/client";
export * from "@sluice/client/connect";
