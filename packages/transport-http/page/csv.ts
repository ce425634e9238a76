/** Maximum rows and columns that are shown. */
export const csvLimits = { rows: 500, columns: 50 } as const;

/** Rows of the beginning of a CSV file: fields in quotes may have delimiters, quotes and lines in them. */
export function csvRows(text: string): string[][] {
  const delimiter = delimiterOf(text);
  const rows: string[][] = [];
  let row: string[] = [];
  let field = "";
  let isQuoted = false;
  for (let at = text.startsWith("\ufeff") ? 1 : 0; at < text.length; at++) {
    const sign = text[at]!;
    if (isQuoted) {
      if (sign !== '"') field += sign;
      else if (text[at + 1] === '"') field += text[++at]!;
      else isQuoted = false;
    } else if (sign === '"' && field === "") isQuoted = true;
    else if (sign === delimiter) field = endField(row, field);
    else if (sign === "\n") {
      endField(row, field.endsWith("\r") ? field.slice(0, -1) : field);
      field = "";
      rows.push(row);
      if (rows.length === csvLimits.rows) return rows;
      row = [];
    } else field += sign;
  }
  if (field !== "" || row.length > 0) {
    endField(row, field);
    rows.push(row);
  }
  return rows;
}

function endField(row: string[], field: string): "" {
  if (row.length < csvLimits.columns) row.push(field);
  return "";
}

/** The sign that is most frequent in the first line. */
function delimiterOf(text: string): string {
  const [line = ""] = text.split("\n", 1);
  const counts = [",", ";", "\t", "|"].map((sign) => [sign, line.split(sign).length] as const);
  return counts.reduce((best, next) => (next[1] > best[1] ? next : best))[0];
}
