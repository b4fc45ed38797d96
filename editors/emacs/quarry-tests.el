;;; quarry-tests.el --- Tests of quarry.el  -*- lexical-binding: t; -*-

;;; Commentary:

;; QUARRY=path emacs --batch -L editors/emacs -l quarry-tests -f ert-run-tests-batch-and-exit

;;; Code:

(require 'ert)
(require 'quarry)

(defmacro quarry-tests--in-a-tree (&rest body)
  "Evaluate BODY in a buffer of a file of a small tree."
  `(let* ((directory (file-name-as-directory (file-truename (make-temp-file "quarry-tests" t))))
          (default-directory (expand-file-name "tree/" directory))
          (process-environment
           (append (list (concat "XDG_CACHE_HOME=" directory "cache")
                         (concat "XDG_CONFIG_HOME=" directory "config"))
                   process-environment))
          (quarry-program (or (getenv "QUARRY") "quarry"))
          (make-backup-files nil)
          (inhibit-message t))
     (unwind-protect
         (progn
           (make-directory default-directory t)
           (with-temp-file "net.py"
             (insert "def connect(host):\n    \"\"\"Open a socket to a host.\"\"\"\n    return dial(host)\n\n\n"
                     "def dial(host):\n    return host.number()\n"))
           (with-temp-file "main.py"
             (insert "from net import connect\n\n\ndef main(name):\n    return connect(name)\n"))
           (call-process quarry-program nil nil nil "index")
           (let ((buffer (find-file-noselect "net.py")))
             (unwind-protect
                 (with-current-buffer buffer ,@body)
               (with-current-buffer buffer (set-buffer-modified-p nil))
               (kill-buffer buffer))))
       (delete-directory directory t))))

(defun quarry-tests--names (places)
  "Each of PLACES on a line."
  (mapcar #'quarry--name places))

(defmacro quarry-tests--shown (&rest body)
  "The names of the places that BODY shows."
  `(let* (shown
          (xref-show-xrefs-function
           (lambda (fetcher _options) (setq shown (quarry-tests--names (funcall fetcher))))))
     ,@body
     shown))

(ert-deftest quarry-tests-search ()
  (quarry-tests--in-a-tree
   (should (equal (car (quarry-tests--shown (quarry-search "open a socket to a host")))
                  "net.py:1: function connect"))
   ;; Nothing clearly answers, or the words look like an option.
   (should (quarry-tests--shown (quarry-search "bake bread")))
   (should (quarry-tests--shown (quarry-search "--connect")))
   (should-error (quarry-search " ") :type 'user-error)))

(ert-deftest quarry-tests-find ()
  (quarry-tests--in-a-tree
   (cl-letf (((symbol-function 'completing-read)
              (lambda (_prompt table &rest _)
                (let ((all (all-completions "" table)))
                  (should (equal (car all) "net.py:1: function connect"))
                  (cl-find "main.py:4: function main" all :test #'string=)))))
     (save-window-excursion
       (quarry-find "open a socket to a host, connect, main")
       (should (equal (file-name-nondirectory buffer-file-name) "main.py"))
       (should (equal (line-number-at-pos) 4))
       (kill-buffer)))))

(ert-deftest quarry-tests-at-point ()
  (quarry-tests--in-a-tree
   (goto-char (point-min))
   (should (equal (quarry-tests--shown (call-interactively #'quarry-callers))
                  '("main.py:5: return connect(name)")))
   (should (quarry-tests--shown (quarry-similar)))
   (should (equal (quarry-tests--shown (call-interactively #'quarry-callees))
                  '("net.py:6: function dial")))
   ;; What is changed is saved first, if the user wants that.
   (insert "def bake(oven):\n    return connect(oven)\n\n\n")
   (cl-letf (((symbol-function 'y-or-n-p) #'ignore))
     (should-error (quarry--here) :type 'user-error)
     (should (buffer-modified-p)))
   (should (equal (quarry-tests--shown (quarry-callers "connect"))
                  '("main.py:5: return connect(name)")))
   (cl-letf (((symbol-function 'y-or-n-p) #'always))
     (goto-char (point-min))
     (should-error (quarry-tests--shown (call-interactively #'quarry-callers)) :type 'user-error)
     (should-not (buffer-modified-p)))
   (should (equal (length (quarry-tests--shown (quarry-callers "connect"))) 2))
   (goto-char (point-max))
   (should-error (quarry-callers (quarry--here)) :type 'user-error)))

(ert-deftest quarry-tests-first-index ()
  "The first command returns at once, and shows its places when there is an index."
  (quarry-tests--in-a-tree
   (let ((default-directory (expand-file-name "other/" directory))
         shown)
     (make-directory default-directory)
     (with-temp-file "shop.py"
       (insert "def pay(cart):\n    return cart\n"))
     (cl-letf ((xref-show-xrefs-function
                (lambda (fetcher _options) (setq shown (quarry-tests--names (funcall fetcher))))))
       (quarry-search "pay a cart")
       (should-not shown)
       (should-error (quarry-search "pay a cart") :type 'user-error)
       (with-timeout (60 (ert-fail "no index"))
         (while (not shown) (accept-process-output nil 0.1)))
       (should (equal shown '("shop.py:1: function pay")))
       (setq shown nil)
       (quarry-search "pay a cart")
       (should shown)))))

(ert-deftest quarry-tests-xref ()
  (quarry-tests--in-a-tree
   (quarry-xref-mode)
   (should (equal (xref-find-backend) 'quarry))
   (setq-local lsp-mode t)
   (should-not (equal (xref-find-backend) 'quarry))
   (kill-local-variable 'lsp-mode)
   (search-forward "dial")
   (should (equal (xref-backend-identifier-at-point 'quarry) "dial"))
   (should (equal (quarry-tests--names (xref-backend-definitions 'quarry "dial")) '("net.py:6: function dial")))
   (should (equal (quarry-tests--names (xref-backend-references 'quarry "dial"))
                  '("net.py:3: return dial(host)")))
   (should (equal (car (quarry-tests--names (xref-backend-apropos 'quarry "open a socket to a host")))
                  "net.py:1: function connect"))
   (should-not (xref-backend-definitions 'quarry "nothing_like_this"))
   (quarry-xref-mode -1)
   (should-not (eq (xref-find-backend) 'quarry))))

(ert-deftest quarry-tests-missing-program ()
  (let ((quarry-program "/nowhere/quarry"))
    (should-error (quarry-search "x"))))

(provide 'quarry-tests)

;;; quarry-tests.el ends here
