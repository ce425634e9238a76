export * from "@sluice/server/node";
export * from "@sluice/storage-fs";
export * from "@sluice/transport-http/node";
