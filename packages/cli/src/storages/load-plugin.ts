/**
 * The module of a plugin that a storage URL names. Rejects with a `TypeError` that says what to install where it is missing.
 */
export async function loadPlugin<Module>(
  loading: Promise<Module>,
  packageName: string,
): Promise<Module> {
  try {
    return await loading;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ERR_MODULE_NOT_FOUND") throw error;
    throw new TypeError(
      `this storage needs the package ${packageName}, which is not installed; npm install ${packageName}, or npx -p sluice -p ${packageName} sluice serve …`,
      { cause: error },
    );
  }
}
