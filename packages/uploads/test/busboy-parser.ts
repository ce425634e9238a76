import busboy from "busboy";
import { driveBusboy, type CreateParser } from "../src/receive/form-parser.ts";

/** Parses with busboy 1.6.0, which could take the place of the parser that is used. */
export const createBusboyParser: CreateParser = (contentType, onPart) =>
  driveBusboy(busboy({ headers: { "content-type": contentType } }), onPart);
